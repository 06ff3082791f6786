package turn_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
)

// unreliable is the way to the simulated Google, without a network. It loses answers, keeps requests back that land
// later, after their sender gave up, and shows an event only some time after it was made.
type unreliable struct {
	sim *gcalsim.Sim
	now func() time.Time

	mu     sync.Mutex
	rng    *rand.Rand
	lossy  int // how many of the next writes may go wrong
	late   []lateRequest
	fresh  map[string]time.Time // events that were just made
	token  string
	banned bool // the account's access was taken away
	landed int  // requests that arrived after their sender gave up
}

type lateRequest struct {
	at  time.Time
	req *http.Request
}

// lag is how long Google may hide what was just made.
const lag = 2 * time.Second

// Token implements gcal.Tokens.
func (u *unreliable) Token(_ context.Context, account, stale string) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.banned {
		return "", &gcal.Error{Class: gcal.AuthRevoked, Reason: "invalid_grant", Message: "Token has been expired or revoked."}
	}
	if u.token == "" || u.token == stale {
		u.token = u.sim.IssueToken(account)
	}
	return u.token, nil
}

// RoundTrip implements http.RoundTripper.
func (u *unreliable) RoundTrip(r *http.Request) (*http.Response, error) {
	req, err := whole(r)
	if err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders() // as a connection does: from here on, the request may have been carried out
	}
	switch u.fate(req) {
	case "late":
		return nil, context.DeadlineExceeded
	case "lost":
		u.unheard(req)
		return nil, syscall.ECONNRESET
	case "hidden":
		return notFound(r), nil
	}
	res := u.deliver(req)
	if res == nil {
		return nil, syscall.ECONNRESET
	}
	res.Request = r
	return res, nil
}

// whole is the request with its body in hand.
func whole(r *http.Request) (*http.Request, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	out := r.Clone(context.Background())
	out.Body, out.RequestURI, out.Host = io.NopCloser(bytes.NewReader(body)), r.URL.RequestURI(), r.URL.Host
	return out, nil
}

func (u *unreliable) fate(r *http.Request) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.Method == http.MethodGet {
		made, fresh := u.fresh[r.URL.Path]
		delete(u.fresh, r.URL.Path)
		if fresh && u.now().Sub(made) < lag && u.rng.IntN(3) == 0 {
			return "hidden"
		}
		return ""
	}
	if u.lossy == 0 {
		return ""
	}
	u.lossy--
	switch u.rng.IntN(3) {
	case 0:
		u.late = append(u.late, lateRequest{u.now(), r})
		return "late"
	case 1:
		return "lost"
	}
	return ""
}

// deliver has the simulator answer; nil when it cuts the connection.
func (u *unreliable) deliver(r *http.Request) (res *http.Response) {
	rec := httptest.NewRecorder()
	defer func() {
		if cut := recover(); cut != nil {
			if err, is := cut.(error); !is || !errors.Is(err, http.ErrAbortHandler) {
				panic(cut)
			}
			res = nil
		}
	}()
	u.sim.ServeHTTP(rec, r)
	res = rec.Result()
	if r.Method == http.MethodPost && res.StatusCode == http.StatusOK {
		u.mu.Lock()
		defer u.mu.Unlock()
		if log := u.sim.Requests(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}}); len(log) > 0 {
			u.fresh[r.URL.Path+"/"+log[len(log)-1].EventID] = u.now()
		}
	}
	return res
}

// unheard delivers a request whose sender does not get the answer.
func (u *unreliable) unheard(r *http.Request) {
	if res := u.deliver(r); res != nil {
		_ = res.Body.Close() // nothing to lose
	}
}

// land lets the requests that were kept back arrive, or not, if they are older than an age.
func (u *unreliable) land(age time.Duration) {
	u.mu.Lock()
	var due []lateRequest
	var rest []lateRequest
	for _, l := range u.late {
		if u.now().Sub(l.at) >= age {
			due = append(due, l)
		} else {
			rest = append(rest, l)
		}
	}
	u.late = rest
	drop := make([]bool, len(due))
	for i := range drop {
		if drop[i] = u.rng.IntN(3) == 0; !drop[i] {
			u.landed++
		}
	}
	u.mu.Unlock()
	for i, l := range due {
		if !drop[i] {
			u.unheard(l.req)
		}
	}
}

func notFound(r *http.Request) *http.Response {
	const body = `{"error":{"errors":[{"domain":"global","reason":"notFound","message":"Not Found"}],"code":404,"message":"Not Found"}}`
	return &http.Response{
		StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json; charset=UTF-8"}},
		Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)), Request: r,
	}
}
