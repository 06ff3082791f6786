package feed

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Client fetches feeds. It is safe for concurrent use.
type Client struct {
	cfg   Config
	hosts *hosts
	// Connections that were dialled under different rules are never shared.
	guarded, local *http.Transport
}

// Request names a feed and what is known of it.
type Request struct {
	Source *calferryv1.FeedSource
	// Local says that a person named the feed at the command line of this machine: files, private
	// addresses and all ports are allowed.
	Local bool
	// ETag and LastModified are those of an earlier Response; an empty one is not sent.
	ETag, LastModified string
}

// Response is a server's answer.
type Response struct {
	// Host that answered in the end, or the base name of a file.
	Host string
	// Status is 200 or 304, and 0 for a file.
	Status int
	// NotModified says that the feed is as it was when the validators of the request were given; there is
	// no Body then.
	NotModified bool
	// Body must be closed; nil when NotModified.
	Body *Body
	// ETag and LastModified validate the body; empty when the server gave none.
	ETag, LastModified string
	// FreshFor is how long the server calls its answer fresh, at most 24 h; 0 when it does not say.
	FreshFor time.Duration
	// MovedTo is where permanent redirects lead, followed up to the first temporary one; empty when there
	// are none. It is as secret as the feed's address.
	MovedTo string
}

// New makes a client. It reports a configuration that cannot work.
func New(cfg Config) (*Client, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuring the feed client: %w", err)
	}
	c := &Client{cfg: cfg, hosts: newHosts(cfg.PerHost, cfg.PerHostWait)}
	c.guarded = c.transport(newGuard(cfg.AllowedNets, cfg.Ports, false))
	c.local = c.transport(newGuard(cfg.AllowedNets, cfg.Ports, true))
	return c, nil
}

func (c *Client) transport(g *guard) *http.Transport {
	dialer := &net.Dialer{Timeout: c.cfg.ConnectTimeout, Resolver: c.cfg.Resolver, Control: g.control}
	t := c.cfg.Transport.Clone()
	// A proxy would dial in our place, beyond the guard's sight.
	t.Proxy = nil
	t.DialContext = dialer.DialContext
	t.DialTLSContext = nil
	t.ForceAttemptHTTP2 = true
	t.TLSHandshakeTimeout = c.cfg.ConnectTimeout
	t.ResponseHeaderTimeout = c.cfg.HeaderTimeout
	t.MaxResponseHeaderBytes = 256 << 10
	t.IdleConnTimeout = 30 * time.Second
	t.MaxIdleConns = 64
	// Decoding is done here, where its growth is bounded.
	t.DisableCompression = true
	return t
}

// Close drops idle connections. Running fetches are not affected.
func (c *Client) Close() {
	c.guarded.CloseIdleConnections()
	c.local.CloseIdleConnections()
}

// Get fetches a feed. It returns when the headers are there; the body is read by the caller, under the
// same limits. Errors are *Error, except that the cause of ctx is wrapped when ctx ends.
func (c *Client) Get(ctx context.Context, req Request) (*Response, error) {
	a, err := parseAddress(req.Source)
	if err != nil {
		return nil, err
	}
	if a.path != "" {
		return c.openFile(ctx, a.path, req.Local)
	}
	host := strings.ToLower(a.url.Hostname())
	if n, v := a.auth.name, a.auth.value; n != "" && (!httpguts.ValidHeaderFieldName(n) || !httpguts.ValidHeaderFieldValue(v)) {
		return nil, &Error{Kind: Refused, Host: host, Problem: "the extra header cannot be sent", Hint: "check its name and value for stray characters"}
	}
	release, err := c.hosts.acquire(ctx, host)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancelCause(ctx)
	deadline := time.AfterFunc(c.cfg.TotalTimeout, func() { cancel(errTotal) })
	end := func() {
		deadline.Stop()
		cancel(nil)
		release()
	}
	t := &trip{client: c, req: req, auth: a.auth, local: req.Local, parent: ctx, ctx: running, cancel: cancel}
	resp, err := t.follow(a.url)
	if err != nil && a.plain != nil && noTLS(err) {
		resp, err = t.follow(a.plain)
	}
	if err != nil || resp.Body == nil {
		end()
		return resp, err
	}
	closeBody := resp.Body.close
	resp.Body.close = func() error {
		end()
		return closeBody()
	}
	return resp, nil
}
