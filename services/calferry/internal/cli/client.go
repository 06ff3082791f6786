package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
)

// clientSettings say where a running Calferry is.
type clientSettings struct {
	Server string        `flag:"server" file:"server" default:"http://127.0.0.1:8080" help:"address of a running Calferry's API"`
	Token  config.Secret `flag:"auth-token" file:"state.auth_token" default:"" help:"token that API and console ask for; at least 16 characters"`
}

func (s clientSettings) client() calferryv1connect.CalferryServiceClient {
	return calferryv1connect.NewCalferryServiceClient(http.DefaultClient, strings.TrimSuffix(s.Server, "/"),
		connect.WithInterceptors(bearer(s.Token)))
}

// bearer sends the token along, on streams too.
type bearer config.Secret

func (b bearer) set(h http.Header) {
	if b != "" {
		h.Set("Authorization", "Bearer "+config.Secret(b).Reveal())
	}
}

// WrapUnary implements connect.Interceptor.
func (b bearer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		b.set(req.Header())
		return next(ctx, req)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (b bearer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		b.set(conn.RequestHeader())
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (b bearer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// explainAPI makes one line of an API error that says what to do.
func (s clientSettings) explainAPI(err error) error {
	if err == nil {
		return nil
	}
	if c, ok := errors.AsType[*connect.Error](err); ok {
		switch c.Code() {
		case connect.CodeUnavailable:
			return fmt.Errorf("no Calferry answers at %s: start one with `calferry up`, or name another with --server", s.Server)
		case connect.CodeUnauthenticated:
			return &exitError{exitAuth, errors.New("the server asks for its token: name its file with --auth-token-file")}
		}
		return errors.New(c.Message())
	}
	return err
}

// ago shows how long a moment is past, or how far ahead.
func ago(at, now time.Time) string {
	if at.IsZero() || at.Unix() == 0 {
		return "-"
	}
	d := now.Sub(at).Round(time.Second)
	if d < 0 {
		return "in " + (-d).String()
	}
	return d.String() + " ago"
}
