package feed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

const maxRedirects = 5

// hintRedirect is for redirects that no reader of feeds can follow.
const hintRedirect = "open the address in a browser to see where it leads, and give the address of the calendar itself"

// trip is one fetch over all its hops.
type trip struct {
	client *Client
	req    Request
	auth   credentials
	// local holds until a public server sends us elsewhere: it must not choose a private address, whoever
	// named the feed.
	local, public bool

	parent context.Context //nolint:containedctx // lives for one fetch
	ctx    context.Context //nolint:containedctx // lives for one fetch
	cancel context.CancelCauseFunc
}

// follow asks u and where it leads.
func (t *trip) follow(u *url.URL) (*Response, error) {
	// Some servers set a cookie and redirect to themselves until it comes back.
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, fmt.Errorf("making a cookie jar: %w", err)
	}
	moved, permanent := "", true
	for hop := 0; ; hop++ {
		resp, err := t.ask(u, jar)
		if err != nil {
			return nil, err
		}
		if !isRedirect(resp) {
			out, err := t.answer(u, resp)
			if err == nil {
				out.MovedTo = moved
			}
			return out, err
		}
		discard(resp)
		next, err := t.redirect(u, resp)
		if err != nil {
			return nil, err
		}
		if hop == maxRedirects {
			return nil, t.endless(u, resp)
		}
		permanent = permanent && (resp.StatusCode == http.StatusMovedPermanently || resp.StatusCode == http.StatusPermanentRedirect)
		if permanent {
			moved = next.String()
		}
		if !keepsCredentials(u, next) {
			t.auth = credentials{}
			t.local = t.local && !t.public
		}
		t.auth.digest = nil // a challenge is answered where it was posed
		u = next
	}
}

// ask sends one request, and once more when the server's challenge can be answered.
func (t *trip) ask(u *url.URL, jar http.CookieJar) (*http.Response, error) {
	for try := 0; ; try++ {
		r, err := t.request(u)
		if err != nil {
			return nil, err
		}
		resp, err := t.send(r, jar)
		if err != nil {
			return nil, t.sendError(u, err)
		}
		if resp.StatusCode != http.StatusUnauthorized || try > 1 || !t.auth.answer(r, resp.Header.Values("WWW-Authenticate")) {
			return resp, nil
		}
		discard(resp)
	}
}

func (t *trip) request(u *url.URL) (*http.Request, error) {
	ctx := httptrace.WithClientTrace(t.ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if ap, err := netip.ParseAddrPort(info.Conn.RemoteAddr().String()); err == nil && isPublic(ap.Addr()) {
			t.public = true
		}
	}})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, &Error{Kind: Refused, Host: u.Hostname(), Problem: "the address cannot be asked", Hint: "copy it again from where the calendar is shared"}
	}
	t.client.setHeaders(r, t.req)
	if err := t.auth.apply(r); err != nil {
		return nil, &Error{Kind: Auth, Host: u.Hostname(), Problem: "the credentials cannot be sent", Err: err}
	}
	return r, nil
}

func isPublic(addr netip.Addr) bool {
	return ssrf.New(ssrf.WithAnyPort()).SafeAddr(addr.WithZone("").Unmap()) == nil
}

func (t *trip) send(r *http.Request, jar http.CookieJar) (*http.Response, error) {
	transport := t.client.guarded
	if t.local {
		transport = t.client.local
	}
	client := &http.Client{
		Transport: transport, Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client.Do(r)
}

func isRedirect(r *http.Response) bool {
	switch r.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}

// redirect returns the next hop of an answer from u, or why it is not taken.
func (t *trip) redirect(u *url.URL, resp *http.Response) (*url.URL, error) {
	fail := func(kind Kind, problem, hint string) error {
		return &Error{Kind: kind, Host: u.Hostname(), Status: resp.StatusCode, Problem: problem, Hint: hint}
	}
	location := resp.Header.Get("Location")
	if location == "" {
		return nil, fail(Invalid, "a redirect to nowhere", hintRedirect)
	}
	next, err := u.Parse(location)
	if err != nil {
		return nil, fail(Invalid, "a redirect that cannot be read", hintRedirect)
	}
	next = normal(next)
	switch {
	case next.Scheme != "http" && next.Scheme != "https" || next.Hostname() == "":
		return nil, fail(Refused, "a redirect to something that is not a web address", hintRedirect)
	case u.Scheme == "https" && next.Scheme == "http":
		return nil, fail(Refused, "a redirect from https to plain http", "ask the feed's owner for an https address")
	}
	return next, nil
}

func (t *trip) endless(u *url.URL, resp *http.Response) error {
	e := &Error{Kind: Invalid, Host: u.Hostname(), Status: resp.StatusCode, Problem: fmt.Sprintf("more than %d redirects", maxRedirects), Hint: "open the address in a browser to see where it leads; it may ask for a login"}
	if strings.Contains(resp.Header.Get("Location"), "errorfe.aspx") {
		e.Kind, e.Problem, e.Hint = Unreachable, "Outlook shows its error page", "publish the calendar again, or set the header User-Agent to that of your browser"
	}
	return e
}

// answer makes a response of the last hop's answer.
func (t *trip) answer(u *url.URL, resp *http.Response) (*Response, error) {
	host, now := u.Hostname(), t.client.cfg.Now()
	out := &Response{
		Host: host, Status: resp.StatusCode,
		ETag: validator(resp.Header.Get("ETag")), LastModified: validator(resp.Header.Get("Last-Modified")),
		FreshFor: freshFor(resp.Header, now),
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && (t.req.ETag != "" || t.req.LastModified != ""):
		discard(resp)
		out.NotModified = true
		return out, nil
	case resp.StatusCode != http.StatusOK:
		defer discard(resp)
		return nil, statusError(host, resp, retryAfter(resp.Header, now))
	case resp.ContentLength > t.client.cfg.MaxBytes:
		_ = resp.Body.Close()
		return nil, tooLarge(host, t.client.cfg.MaxBytes)
	}
	paced := &pacedReader{r: resp.Body, window: t.client.cfg.StallTimeout, cancel: t.cancel}
	body, err := newBody(host, t.client.cfg, t.ctx, t.parent, paced, strings.Join(resp.Header.Values("Content-Encoding"), ","))
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	body.close = resp.Body.Close
	out.Body = body
	return out, nil
}

// discard reads a little of what is left, so that the connection can be used again.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
}

// noTLS says whether a fetch failed because nobody speaks TLS at its first address: nothing listens there, or
// the answer is not TLS. A certificate that is not valid or a server that is slow must not lead to plain http.
func noTLS(err error) bool {
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return plain || errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, syscall.ECONNREFUSED)
}

// sendError explains why there was no answer.
func (t *trip) sendError(u *url.URL, err error) error {
	host := u.Hostname()
	if t.ctx.Err() != nil {
		return stopped(t.ctx, t.parent, host)
	}
	// url.Error repeats the address.
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		err = ue.Err
	}
	e := &Error{Kind: Unreachable, Host: host, Problem: "no answer", Err: err, Hint: "the server may be down; " + AskedAgain}
	var (
		dns     *net.DNSError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.Is(err, errForbidden):
		e.Kind, e.Problem, e.Hint = Refused, "the address is not a public one", "if the server is yours, allow its network with --feed-allow-nets"
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Problem, e.Err, e.Hint = "there is no host of that name", nil, "check the address"
	case errors.As(err, &cert), errors.As(err, &unknown):
		e.Problem, e.Hint = "the server's certificate is not valid", "ask the feed's owner to renew it"
	}
	return e
}
