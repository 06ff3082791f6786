package state

import (
	"context"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
	"github.com/calferry/calferry/services/state/internal/api"
	"github.com/calferry/calferry/services/state/internal/audit"
	"github.com/calferry/calferry/services/state/internal/console"
)

// maxRequest bounds a request to the API, in bytes. The largest is an import, of which the command line sends up to 8 MiB.
const maxRequest = 10 << 20

// routes joins API and console below the path prefix.
func (s *Service) routes(service *api.Service) (http.Handler, error) {
	pages, err := console.New(service, s.board, s.guard, s.cfg.PathPrefix, s.deps.Now, s.deps.Logger)
	if err != nil {
		return nil, err
	}
	path, rpc := calferryv1connect.NewCalferryServiceHandler(service, connect.WithReadMaxBytes(maxRequest),
		connect.WithInterceptors(api.Roles(), audit.Interceptor()))
	mux := http.NewServeMux()
	mux.Handle(path, s.guard.Wrap(rpc, http.HandlerFunc(deniedRPC)))
	mux.Handle("/", pages.Handler())
	var whole http.Handler = mux
	if s.cfg.PathPrefix != "" {
		below := http.NewServeMux()
		below.Handle(s.cfg.PathPrefix+"/", http.StripPrefix(s.cfg.PathPrefix, mux))
		below.Handle("/{$}", http.RedirectHandler(s.cfg.PathPrefix+"/", http.StatusSeeOther))
		whole = below
	}
	return s.audit.Attach(s.untilStop(whole)), nil
}

// untilStop ends answers that go on for ever when the service stops: a stop need not wait for browsers to leave.
func (s *Service) untilStop(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !endless(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.streaming, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// deniedRPC says what is missing, in the protocol that the caller speaks.
func deniedRPC(w http.ResponseWriter, r *http.Request) {
	err := api.Error(api.CodeUnauthenticated, "the auth token is missing or wrong; send it as a bearer token")
	if writer := connect.NewErrorWriter(); writer.IsSupported(r) {
		_ = writer.Write(w, r, err) // the caller has gone
		return
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, err.Error(), http.StatusUnauthorized)
}

func endless(path string) bool {
	return strings.HasSuffix(path, "/events") || strings.HasSuffix(path, calferryv1connect.CalferryServiceWatchSubscriptionsProcedure)
}
