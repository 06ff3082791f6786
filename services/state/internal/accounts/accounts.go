// Package accounts keeps the Google accounts: it connects them, seals what must not be seen, and marks those whose
// grant is lost.
//
// It guarantees that no credential leaves it in the clear but through Credential, that an account is never handed to
// another Google user, and that an account which subscriptions need is not removed.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

var (
	// ErrOtherUser says that somebody tried to reconnect an account as another Google user.
	ErrOtherUser = errors.New("that is another Google user")
	// ErrInUse says that subscriptions need the account.
	ErrInUse = errors.New("subscriptions use it")
	// ErrCredential says that a credential lacks what its kind needs.
	ErrCredential = errors.New("credential is incomplete")
	// ErrUsed says that a sign-in was finished before.
	ErrUsed = errors.New("this sign-in was finished already")
	// ErrKnown says that a Google user is connected already, with rights that the new grant lacks.
	ErrKnown = errors.New("it is connected already")
	// ErrNoKey says that this process was started without the account key.
	ErrNoKey = errors.New("the account key is not configured for this service")
)

// Keeper reads and changes accounts. It is safe for concurrent use.
type Keeper struct {
	registry *registry.Registry
	key      *seal.Key
	tokenURL string
	now      func() time.Time
	revoke   func(ctx context.Context, refreshToken string) error
}

// GiveBack sets what gives a removed account's grant back to Google. It is called before the keeper is used.
func (k *Keeper) GiveBack(revoke func(ctx context.Context, refreshToken string) error) {
	k.revoke = revoke
}

// New makes a keeper over the registry. key is the account key; tokenURL is the token endpoint of OAuth accounts that
// are connected without naming one, Google's own when empty.
func New(reg *registry.Registry, key *seal.Key, tokenURL string, now func() time.Time) *Keeper {
	return &Keeper{registry: reg, key: key, tokenURL: tokenURL, now: now}
}

// Connection is what a person gives to connect an account. ID is empty for a new one.
type Connection struct {
	ID         string
	Kind       calferryv1.AccountKind
	Credential *calferryv1.Credential
	Email      string
	GoogleSub  string
	Project    string
	Scopes     []string
	// EndsAt is when Google will end the grant by itself; zero when it is not known to.
	EndsAt time.Time
	// Consent is set when a person has just consented to this.
	Consent *Consent
}

// Consent makes a sign-in good for one change of one account, on whichever replica it ends.
type Consent struct {
	// NewID is the id that a new account gets, chosen when the sign-in began.
	NewID string
	// Connected is when the account to reconnect was last connected, as it was when the sign-in began.
	Connected time.Time
	Began     time.Time
}

// Connect stores a new account, or a new grant for one that exists. It returns ErrOtherUser, naming both, when the
// grant is not of the user that the account belongs to.
func (k *Keeper) Connect(ctx context.Context, c Connection) (*calferryv1.Account, error) {
	if k.key == nil {
		return nil, fmt.Errorf("connect account: %w; set its key file", ErrNoKey)
	}
	if err := complete(c); err != nil {
		return nil, fmt.Errorf("connect account: %w", err)
	}
	if c.Project == "" {
		c.Project = projectOf(c.Credential.GetClientId())
	}
	if c.ID == "" {
		known, err := k.known(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("connect account: %w", err)
		}
		if known == nil {
			return k.create(ctx, c)
		}
		c.ID, c.Consent = known.GetId(), &Consent{Connected: known.GetConnectedAt().AsTime(), Began: c.Consent.Began}
	}
	rec, err := k.registry.UpdateAccount(ctx, c.ID, func(account *calferryv1.Account) error {
		if other(account, c) {
			return fmt.Errorf("reconnect account %s: it belongs to %s, and the new grant is of %s: %w; sign in as %s, or connect a new account",
				c.ID, who(account.GetEmail(), account.GetGoogleSub()), who(c.Email, c.GoogleSub), ErrOtherUser, who(account.GetEmail(), account.GetGoogleSub()))
		}
		if c.Consent != nil && !account.GetConnectedAt().AsTime().Equal(c.Consent.Connected) {
			return fmt.Errorf("%w, or the account was connected otherwise meanwhile; look at the list of accounts", ErrUsed)
		}
		return k.grant(account, c)
	})
	if err != nil {
		return nil, fmt.Errorf("reconnect account: %w", err)
	}
	return rec.Value, nil
}

func (k *Keeper) create(ctx context.Context, c Connection) (*calferryv1.Account, error) {
	account := &calferryv1.Account{Id: registry.NewID(), Kind: c.Kind}
	if c.Consent != nil {
		account.Id = c.Consent.NewID
	}
	if err := k.grant(account, c); err != nil {
		return nil, err
	}
	err := k.registry.PutAccount(ctx, &registry.Record[*calferryv1.Account]{Value: account})
	if c.Consent != nil && errors.Is(err, registry.ErrConflict) {
		return nil, fmt.Errorf("connect account: %w; look at the list of accounts", ErrUsed)
	}
	if err != nil {
		return nil, fmt.Errorf("connect account: %w", err)
	}
	return account, nil
}

// known finds the account of the Google user who has just consented as if for a new one. Its grant is renewed if the new
// one allows as much; else it returns ErrKnown, because calendars of that account would fall out of reach.
func (k *Keeper) known(ctx context.Context, c Connection) (*calferryv1.Account, error) {
	if c.Consent == nil || c.GoogleSub == "" {
		return nil, nil
	}
	for rec, err := range k.registry.Accounts(ctx) {
		if _, ok := errors.AsType[*registry.RecordError](err); ok {
			continue
		}
		if err != nil {
			return nil, err
		}
		account := rec.Value
		if account.GetKind() != c.Kind || account.GetGoogleSub() != c.GoogleSub || account.GetProject() != c.Project {
			continue
		}
		if !c.Consent.Began.After(account.GetConnectedAt().AsTime()) {
			return nil, fmt.Errorf("%w; look at the list of accounts", ErrUsed)
		}
		for _, scope := range account.GetScopes() {
			if !slices.Contains(c.Scopes, scope) {
				return nil, fmt.Errorf("%s: %w, and its calendars need more than was allowed now; reconnect that account instead, and nothing is lost", who(c.Email, c.GoogleSub), ErrKnown)
			}
		}
		return account, nil
	}
	return nil, nil
}

// grant writes the new grant into the account; what the caller does not tell stays as it is.
func (k *Keeper) grant(account *calferryv1.Account, c Connection) error {
	credential := proto.CloneOf(c.Credential)
	if c.Kind == calferryv1.AccountKind_ACCOUNT_KIND_OAUTH {
		credential.TokenUrl = first(credential.GetTokenUrl(), k.tokenURL)
	}
	sealed, err := registry.SealCredential(k.key, account.GetId(), credential)
	if err != nil {
		return fmt.Errorf("connect account: %w", err)
	}
	account.SealedCredential = sealed
	account.State = calferryv1.AccountState_ACCOUNT_STATE_CONNECTED
	account.Reason = ""
	account.ConnectedAt = timestamppb.New(k.now())
	if c.Kind != calferryv1.AccountKind_ACCOUNT_KIND_UNSPECIFIED {
		account.Kind = c.Kind
	}
	account.Email = first(c.Email, account.GetEmail())
	account.GoogleSub = first(c.GoogleSub, account.GetGoogleSub())
	account.Project = first(c.Project, account.GetProject())
	if len(c.Scopes) > 0 {
		account.Scopes = c.Scopes
	}
	account.GrantEndsAt = nil
	if !c.EndsAt.IsZero() {
		account.GrantEndsAt = timestamppb.New(c.EndsAt)
	}
	return nil
}

// Rotated stores the refresh token that Google gave in place of old, unless another grant has come meanwhile.
func (k *Keeper) Rotated(ctx context.Context, id, old, fresh string) error {
	_, err := k.registry.UpdateAccount(ctx, id, func(a *calferryv1.Account) error {
		credential, err := k.Credential(a)
		if err != nil {
			return err
		}
		if credential.GetRefreshToken() != old {
			return errUnchanged
		}
		credential.RefreshToken = fresh
		a.SealedCredential, err = registry.SealCredential(k.key, id, credential)
		return err
	})
	return unchanged("store the rotated refresh token of account "+id, err)
}

// Credential opens an account's credential. Only the token broker needs it.
func (k *Keeper) Credential(account *calferryv1.Account) (*calferryv1.Credential, error) {
	if k.key == nil {
		return nil, ErrNoKey
	}
	return registry.OpenCredential(k.key, account)
}

// Revoked marks an account whose grant Google refused at the given time, and tells whether that is news. An account
// that was connected after that time keeps its state: the report is about an older grant.
func (k *Keeper) Revoked(ctx context.Context, id, reason string, at time.Time) (bool, error) {
	news := false
	_, err := k.registry.UpdateAccount(ctx, id, func(a *calferryv1.Account) error {
		news = false
		if a.GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT || a.GetConnectedAt().AsTime().After(at) {
			return errUnchanged
		}
		a.State = calferryv1.AccountState_ACCOUNT_STATE_RECONNECT
		a.Reason = reason
		news = true
		return nil
	})
	return news, unchanged("mark account "+id+" as revoked", err)
}

// Note shows a text for the operator on an account that stays connected; an empty text takes it away.
func (k *Keeper) Note(ctx context.Context, id, text string) error {
	_, err := k.registry.UpdateAccount(ctx, id, func(a *calferryv1.Account) error {
		if a.GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT || a.GetReason() == text {
			return errUnchanged
		}
		a.Reason = text
		return nil
	})
	return unchanged("note on account "+id, err)
}

// errUnchanged leaves a record as it is.
var errUnchanged = errors.New("unchanged")

func unchanged(attempt string, err error) error {
	if err == nil || errors.Is(err, errUnchanged) || errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("%s: %w", attempt, err)
}

func complete(c Connection) error {
	missing := func(what string) error { return fmt.Errorf("%w: %s is missing", ErrCredential, what) }
	switch c.Kind {
	case calferryv1.AccountKind_ACCOUNT_KIND_TOKEN:
		if c.Credential.GetAccessToken() == "" {
			return missing("access_token")
		}
	case calferryv1.AccountKind_ACCOUNT_KIND_OAUTH:
		switch {
		case c.Credential.GetRefreshToken() == "":
			return missing("refresh_token")
		case c.Credential.GetClientId() == "":
			return missing("client_id")
		}
	case calferryv1.AccountKind_ACCOUNT_KIND_SERVICE:
		if len(c.Credential.GetServiceAccountJson()) == 0 {
			return missing("service_account_json")
		}
	default:
		return missing("kind")
	}
	return nil
}

func other(a *calferryv1.Account, c Connection) bool {
	if a.GetGoogleSub() != "" && c.GoogleSub != "" {
		return a.GetGoogleSub() != c.GoogleSub
	}
	return a.GetEmail() != "" && c.Email != "" && !strings.EqualFold(a.GetEmail(), c.Email)
}

func who(email, sub string) string {
	if email != "" {
		return email
	}
	return "Google user " + first(sub, "(unknown)")
}

// projectOf is the numeric prefix of an OAuth client id: the Google Cloud project whose quota is used.
func projectOf(clientID string) string {
	prefix, _, found := strings.Cut(clientID, "-")
	if !found || strings.Trim(prefix, "0123456789") != "" {
		return ""
	}
	return prefix
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
