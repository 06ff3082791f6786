package tokens

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// margin is how long before its end a token is not used any more: longer than any call that takes it.
	margin = time.Minute
	// unknownLife is how long a token is used that does not say when it ends.
	unknownLife = 5 * time.Minute
)

// ClientConfig tunes a Client. The zero value is good.
type ClientConfig struct {
	// Timeout bounds a request to the broker, which may have to ask Google; 8 s when 0.
	Timeout time.Duration
	Now     func() time.Time
}

// Client asks the broker for access tokens. It is safe for concurrent use.
type Client struct {
	nc     *nats.Conn
	cfg    ClientConfig
	flight singleflight.Group

	mu     sync.Mutex
	tokens map[string]held
}

var _ gcal.Tokens = (*Client)(nil)

// held is a token that may be used until some time.
type held struct {
	token string
	until time.Time
}

// NewClient makes a client. It sends nothing.
func NewClient(nc *nats.Conn, cfg ClientConfig) *Client {
	if cfg.Timeout == 0 {
		cfg.Timeout = 8 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Client{nc: nc, cfg: cfg, tokens: map[string]held{}}
}

// Token returns an access token for account, from memory if it can. stale is a token that Google refused,
// or empty: that one is never returned from memory.
func (c *Client) Token(ctx context.Context, account, stale string) (string, error) {
	if token, ok := c.remembered(account, stale); ok {
		return token, nil
	}
	// The request serves all who wait for it, so it does not end with the first one's ctx.
	asked := c.flight.DoChan(account+"\x00"+stale, func() (any, error) {
		if token, ok := c.remembered(account, stale); ok {
			return token, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
		defer cancel()
		return c.ask(ctx, account, stale)
	})
	select {
	case <-ctx.Done():
		return "", transient("cancelled context", fmt.Sprintf("gave up waiting for an access token: %v", context.Cause(ctx)))
	case answer := <-asked:
		if answer.Err != nil {
			return "", answer.Err
		}
		return answer.Val.(string), nil
	}
}

func (c *Client) remembered(account, stale string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.tokens[account]
	return have.token, have.token != "" && have.token != stale && c.cfg.Now().Before(have.until)
}

func (c *Client) ask(ctx context.Context, account, stale string) (string, error) {
	request := &calferryv1.TokenRequest{Account: account}
	if stale != "" {
		request.Stale = digest(stale)
	}
	data, err := proto.Marshal(request)
	if err != nil {
		return "", &gcal.Error{Class: gcal.Operator, Reason: "bad account id", Message: "the account id is not valid UTF-8"}
	}
	answer, err := c.nc.RequestWithContext(ctx, streams.TokenSubject, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return "", transient("no broker", "no state service is running to hand out access tokens; start one")
	case err != nil:
		return "", transient("no answer", fmt.Sprintf("the state service did not hand out an access token: %v", err))
	}
	var reply calferryv1.TokenReply
	if err := proto.Unmarshal(answer.Data, &reply); err != nil {
		return "", transient("bad answer", "the state service's answer about an access token is unreadable; run the same version of all services")
	}
	if err := fromWire(&reply); err != nil {
		c.forget(account)
		return "", err
	}
	c.remember(account, &reply)
	return reply.GetAccessToken(), nil
}

func (c *Client) forget(account string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tokens, account)
}

func (c *Client) remember(account string, reply *calferryv1.TokenReply) {
	until := c.cfg.Now().Add(unknownLife)
	if reply.GetExpiresAt() != nil {
		until = reply.GetExpiresAt().AsTime().Add(-margin)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[account] = held{token: reply.GetAccessToken(), until: until}
}

// digest identifies a token without being one.
func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func transient(reason, message string) *gcal.Error {
	return &gcal.Error{Class: gcal.Transient, Reason: reason, Message: message}
}
