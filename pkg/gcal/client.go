package gcal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/api/calendar/v3"
	"google.golang.org/api/option"
)

// DefaultEndpoint is Google's own.
const DefaultEndpoint = "https://www.googleapis.com/calendar/v3/"

// Tokens hands out access tokens. It is called for each request, so it caches.
type Tokens interface {
	// Token returns an access token for account. A stale token, if not empty, is one that Google has just
	// refused: then another one is returned, or an error. Errors may be an *Error; they are classified.
	Token(ctx context.Context, account, stale string) (string, error)
}

// Config says how to reach Google.
type Config struct {
	// Endpoint is the address of the API, with or without a slash at its end; DefaultEndpoint when
	// empty. An address without a path gets Google's path.
	Endpoint string
	// Timeout bounds each call as a whole, a refresh of the token included; 10 s when 0.
	Timeout time.Duration
	// UserAgent goes in front of the client library's; "calferry" when empty.
	UserAgent string
	// Transport sends the requests; NewTransport's when nil. It must not follow redirects, repeat
	// requests or add credentials.
	Transport http.RoundTripper
	// OnRequest, if set, hears of each request that is sent, with what it costs of Google's quota. It is
	// called from several goroutines and must not block.
	OnRequest func(kind string, units int)
}

// WithDefaults returns c with its empty fields filled.
func (c Config) WithDefaults() Config {
	c.Endpoint = orDefault(c.Endpoint, DefaultEndpoint)
	c.UserAgent = orDefault(c.UserAgent, "calferry")
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Transport == nil {
		c.Transport = NewTransport()
	}
	if c.OnRequest == nil {
		c.OnRequest = func(string, int) {}
	}
	return c
}

// Validate checks c after WithDefaults.
func (c Config) Validate() error {
	if c.Timeout < 0 {
		return fmt.Errorf("google calendar: timeout %s is negative; use for example 10s", c.Timeout)
	}
	_, err := endpoint(c.Endpoint)
	return err
}

func endpoint(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		// Not quoted: an address with a password in it would be.
		return "", fmt.Errorf("google calendar: the endpoint is not a plain http or https address; use for example %s", DefaultEndpoint)
	}
	if strings.Trim(u.Path, "/") == "" {
		return strings.TrimRight(u.String(), "/") + "/calendar/v3/", nil
	}
	// Without the slash the client library replaces the last part of the path.
	return strings.TrimRight(u.String(), "/") + "/", nil
}

// Client is a connection to Google Calendar for any number of accounts. It is safe for concurrent use.
type Client struct {
	cfg     Config
	service *calendar.Service
	tokens  Tokens
}

// New makes a client. It sends nothing.
func New(cfg Config, tokens Tokens) (*Client, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if tokens == nil {
		return nil, errors.New("google calendar: no source of access tokens was given")
	}
	base, err := endpoint(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	// The library needs a context to find credentials with; with a client of one's own it looks for none.
	service, err := calendar.NewService(context.Background(),
		option.WithHTTPClient(&http.Client{
			Transport: cfg.Transport,
			// A redirect is followed with the body and all; Google sends none.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
		option.WithEndpoint(base),
		option.WithLogger(slog.New(slog.DiscardHandler)), // the library logs whole requests when an environment variable says so
	)
	if err != nil {
		return nil, fmt.Errorf("google calendar: make the client: %w", err)
	}
	service.UserAgent = cfg.UserAgent
	return &Client{cfg: cfg, service: service, tokens: tokens}, nil
}

// Calendar is the calendar id, reached with account's access. It sends nothing.
func (c *Client) Calendar(account, id string) *Calendar {
	return &Calendar{client: c, account: account, id: id}
}

// NewTransport returns a transport for many short calls to one host: it keeps connections, notices dead
// ones, and gives up on a host that does not answer.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          100,
		MaxIdleConnsPerHost:   100,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}
