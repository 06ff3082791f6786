package tokens

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/gcal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// refreshMargin leaves a token of the broker's memory a minute of use after the client's own margin.
	refreshMargin = 2 * margin
	// refusalLife is how long a lasting refusal is answered from memory. Hundreds of lanes of one account
	// may ask in that time; a new credential is asked about at once.
	refusalLife = time.Minute
)

// Source opens credentials. The state service is one.
type Source interface {
	// Credential returns an account and its opened credential, or ErrUnknownAccount. It is called for
	// each request, so that a reconnected account is served at once.
	Credential(ctx context.Context, account string) (*calferryv1.Account, *calferryv1.Credential, error)
}

// BrokerConfig tunes a Broker. The zero value is good.
type BrokerConfig struct {
	// Transport sends requests to the token endpoint; gcal.NewTransport's when nil.
	Transport http.RoundTripper
	// Timeout bounds one refresh; 7 s when 0, which is less than a client waits.
	Timeout time.Duration
	// OnRefused, if set, hears when Google refuses a credential for good (AuthRevoked, Operator), once
	// for each time it was asked. It must not block for long.
	OnRefused func(ctx context.Context, account string, why *gcal.Error)
	// OnRotated, if set, hears when the token endpoint gives a new refresh token, before the access token
	// that came with it is used: it must store fresh, unless the account has another one than old by now.
	OnRotated func(ctx context.Context, account, old, fresh string) error
	Logger    *slog.Logger
	Now       func() time.Time
}

// Broker makes access tokens from credentials. It is safe for concurrent use.
type Broker struct {
	source Source
	cfg    BrokerConfig
	client *http.Client
	flight singleflight.Group

	mu     sync.Mutex
	grants map[string]grant
}

var _ gcal.Tokens = (*Broker)(nil)

// grant is the last outcome for an account.
type grant struct {
	// credential is a print of what the outcome was for; with another credential it counts for nothing.
	credential string
	token      string
	expires    time.Time
	// rotated is the refresh token that takes the place of the one that was used, if there is one.
	rotated   string
	refused   *gcal.Error
	refusedAt time.Time
}

// NewBroker makes a broker. It sends nothing; see Serve.
func NewBroker(source Source, cfg BrokerConfig) *Broker {
	if cfg.Transport == nil {
		cfg.Transport = gcal.NewTransport()
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 7 * time.Second
	}
	if cfg.OnRefused == nil {
		cfg.OnRefused = func(context.Context, string, *gcal.Error) {}
	}
	if cfg.OnRotated == nil {
		cfg.OnRotated = func(context.Context, string, string, string) error { return nil }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Broker{
		source: source, cfg: cfg, grants: map[string]grant{},
		client: &http.Client{
			Transport: cfg.Transport,
			// A redirect would carry the refresh token to wherever it points.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Token returns an access token for account, for use inside this process. stale is a token that Google
// refused, or empty.
func (b *Broker) Token(ctx context.Context, account, stale string) (string, error) {
	var refused []byte
	if stale != "" {
		refused = digest(stale)
	}
	got, err := b.get(ctx, account, refused)
	if err != nil {
		return "", err
	}
	return got.token, nil
}

// get returns a grant whose token is good and does not have the print stale.
func (b *Broker) get(ctx context.Context, account string, stale []byte) (grant, error) {
	record, credential, err := b.source.Credential(ctx, account)
	if errors.Is(err, ErrUnknownAccount) {
		return grant{}, &gcal.Error{Class: gcal.AuthRevoked, Reason: unknownAccount, Message: fmt.Sprintf("account %s is not connected", account)}
	}
	if err != nil {
		b.cfg.Logger.ErrorContext(ctx, "credential cannot be read", slog.String("account", account), slog.Any("error", err))
		return grant{}, transient("credential", fmt.Sprintf("the credential of account %s cannot be read; see the log of the state service", account))
	}
	id := identify(record, credential)
	if known, ok := b.known(account, id, stale); ok {
		return known, asError(known.refused)
	}
	asked := b.flight.DoChan(account+"\x00"+id+"\x00"+string(stale), func() (any, error) {
		if known, ok := b.known(account, id, stale); ok {
			return known, nil
		}
		// One refresh serves all who wait for it, so it does not end with the first one's ctx.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.cfg.Timeout)
		defer cancel()
		fresh := b.refresh(ctx, record, credential, stale)
		fresh.credential = id
		if fresh.rotated != "" {
			fresh.credential = b.rotate(ctx, record, credential, fresh.rotated)
			fresh.rotated = ""
		}
		b.keep(ctx, account, fresh)
		return fresh, nil
	})
	select {
	case <-ctx.Done():
		return grant{}, transient("cancelled context", fmt.Sprintf("gave up waiting for an access token: %v", context.Cause(ctx)))
	case answer := <-asked:
		fresh := answer.Val.(grant)
		return fresh, asError(fresh.refused)
	}
}

// rotate has the new refresh token stored, and returns the print of the credential with it. When it
// cannot be stored the old one is tried again next time: most endpoints take it for a while.
func (b *Broker) rotate(ctx context.Context, record *calferryv1.Account, credential *calferryv1.Credential, fresh string) string {
	if err := b.cfg.OnRotated(ctx, record.GetId(), credential.GetRefreshToken(), fresh); err != nil {
		b.cfg.Logger.ErrorContext(ctx, "a new refresh token could not be stored; the account may have to be reconnected",
			slog.String("account", record.GetId()), slog.Any("error", err))
		return identify(record, credential)
	}
	next := proto.CloneOf(credential)
	next.RefreshToken = fresh
	return identify(record, next)
}

// Check asks for a token with a credential that nothing has stored yet, and returns what Google has
// against it. Nothing is remembered, and nobody is told.
func (b *Broker) Check(ctx context.Context, record *calferryv1.Account, credential *calferryv1.Credential) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	return asError(b.refresh(ctx, record, credential, nil).refused)
}

// asError keeps a nil *gcal.Error from becoming an error that is not nil.
func asError(err *gcal.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// identify returns a print of all that a token depends on.
func identify(record *calferryv1.Account, credential *calferryv1.Credential) string {
	data, _ := proto.MarshalOptions{Deterministic: true}.Marshal(credential) // it came out of a decoder
	scopes := fmt.Sprint(record.GetKind(), record.GetScopes())
	return hex.EncodeToString(digest(string(data) + "\x00" + scopes))
}

func (b *Broker) known(account, id string, stale []byte) (grant, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	have, ok := b.grants[account]
	now := b.cfg.Now()
	switch {
	case !ok || have.credential != id:
		return grant{}, false
	case have.refused != nil:
		return have, now.Before(have.refusedAt.Add(refusalLife))
	}
	return have, !bytes.Equal(digest(have.token), stale) && now.Before(have.expires.Add(-refreshMargin))
}

// keep remembers tokens and lasting refusals; a temporary failure leaves what was known.
func (b *Broker) keep(ctx context.Context, account string, fresh grant) {
	why := fresh.refused
	if why != nil && why.Class != gcal.AuthRevoked && why.Class != gcal.Operator {
		b.cfg.Logger.WarnContext(ctx, "access token not refreshed", slog.String("account", account), slog.Any("error", why))
		return
	}
	b.mu.Lock()
	b.grants[account] = fresh
	b.mu.Unlock()
	if why != nil {
		b.cfg.Logger.WarnContext(ctx, "credential refused", slog.String("account", account), slog.Any("error", why))
		b.cfg.OnRefused(ctx, account, why)
	}
}
