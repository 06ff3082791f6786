package accounts_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/accounts"
)

const oauthKind = calferryv1.AccountKind_ACCOUNT_KIND_OAUTH

// rig is a keeper, and another one for a second replica.
type rig struct {
	*testing.T
	reg             *registry.Registry
	keeper, replica *accounts.Keeper
	mu              sync.Mutex
	clock           time.Time
}

func newRig(t *testing.T) *rig {
	t.Helper()
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	r := &rig{T: t, clock: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)}
	r.reg, err = registry.Open(t.Context(), js)
	require.NoError(t, err)
	key, err := seal.Generate()
	require.NoError(t, err)
	r.keeper = accounts.New(r.reg, key, "https://tokens.example/token", r.now)
	r.replica = accounts.New(r.reg, key, "https://tokens.example/token", r.now)
	return r
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = r.clock.Add(d)
}

// consented is a new grant of a user, for the account that id stands for.
func (r *rig) consented(newID, sub, token string, scopes ...string) accounts.Connection {
	return accounts.Connection{
		Kind: oauthKind, Email: sub + "@example.com", GoogleSub: sub, Scopes: scopes,
		Credential: &calferryv1.Credential{RefreshToken: token, ClientId: "4242-abc.apps.example", ClientSecret: "s"},
		Consent:    &accounts.Consent{NewID: newID, Began: r.now()},
	}
}

// again is a grant for an account that exists.
func (r *rig) again(a *calferryv1.Account, sub, token string, scopes ...string) accounts.Connection {
	c := r.consented("", sub, token, scopes...)
	c.ID, c.Consent.Connected = a.GetId(), a.GetConnectedAt().AsTime()
	return c
}

func (r *rig) token(id string) string {
	r.Helper()
	rec, err := r.reg.Account(r.Context(), id)
	require.NoError(r, err)
	credential, err := r.keeper.Credential(rec.Value)
	require.NoError(r, err)
	return credential.GetRefreshToken()
}

func TestASignInChangesOneAccountOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.consented("new1", "ada", "one", "scope")
	r.pass(time.Second)
	account, err := r.keeper.Connect(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, "new1", account.GetId())
	_, err = r.replica.Connect(t.Context(), first)
	require.ErrorIs(t, err, accounts.ErrUsed, "on any replica")
	// The same sign-in, ended by another Google user.
	_, err = r.replica.Connect(t.Context(), r.consented("new1", "eve", "x"))
	require.ErrorIs(t, err, accounts.ErrUsed)

	r.pass(time.Second)
	next := r.again(account, "ada", "two", "scope")
	_, err = r.keeper.Connect(t.Context(), next)
	require.NoError(t, err)
	r.pass(time.Second)
	next.Credential.RefreshToken = "three"
	_, err = r.replica.Connect(t.Context(), next)
	require.ErrorIs(t, err, accounts.ErrUsed)
	require.Equal(t, "two", r.token("new1"))
}

func TestAReconnectIsOfTheSameUser(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account, err := r.keeper.Connect(t.Context(), r.consented("a1", "ada", "one"))
	require.NoError(t, err)
	_, err = r.keeper.Connect(t.Context(), r.again(account, "eve", "two"))
	require.ErrorIs(t, err, accounts.ErrOtherUser)
	require.ErrorContains(t, err, "ada@example.com")
	require.ErrorContains(t, err, "eve@example.com")
	require.Equal(t, "one", r.token("a1"), "nothing was stored")
}

func TestAKnownUserIsNotConnectedTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.keeper.Connect(t.Context(), r.consented("a1", "ada", "one", "wide", "narrow"))
	require.NoError(t, err)
	r.pass(time.Minute)
	_, err = r.keeper.Connect(t.Context(), r.consented("a2", "ada", "two", "narrow"))
	require.ErrorIs(t, err, accounts.ErrKnown, "the account's calendars would fall out of reach")
	require.ErrorContains(t, err, "ada@example.com")
	require.Equal(t, "one", r.token("a1"))

	more := r.consented("a2", "ada", "two", "narrow", "wide", "wider")
	r.pass(time.Second)
	account, err := r.keeper.Connect(t.Context(), more)
	require.NoError(t, err)
	require.Equal(t, "a1", account.GetId())
	require.Equal(t, "two", r.token("a1"))
	_, err = r.replica.Connect(t.Context(), more)
	require.ErrorIs(t, err, accounts.ErrUsed)

	other, err := r.keeper.Connect(t.Context(), r.consented("a3", "bob", "three", "narrow"))
	require.NoError(t, err)
	require.Equal(t, "a3", other.GetId())
}

func TestTheEndOfAGrantIsKeptWithIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.consented("a1", "ada", "one")
	c.EndsAt = r.now().Add(7 * 24 * time.Hour)
	account, err := r.keeper.Connect(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, c.EndsAt, account.GetGrantEndsAt().AsTime())
	r.pass(time.Second)
	account, err = r.keeper.Connect(t.Context(), r.again(account, "ada", "two"))
	require.NoError(t, err)
	require.Nil(t, account.GetGrantEndsAt(), "the new grant lasts")
}

func TestARotatedTokenTakesThePlaceOfItsOwnOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.keeper.Connect(t.Context(), r.consented("a1", "ada", "one"))
	require.NoError(t, err)
	require.NoError(t, r.keeper.Rotated(t.Context(), "a1", "one", "two"))
	require.Equal(t, "two", r.token("a1"))
	require.NoError(t, r.keeper.Rotated(t.Context(), "a1", "one", "late"))
	require.Equal(t, "two", r.token("a1"), "a late answer about an older grant")
	require.NoError(t, r.keeper.Rotated(t.Context(), "gone", "one", "two"))
}

func TestARemovedAccountGivesItsGrantBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var back []string
	fails := error(nil)
	r.keeper.GiveBack(func(_ context.Context, token string) error { back = append(back, token); return fails })
	connect := func(id, sub string) {
		_, err := r.keeper.Connect(t.Context(), accounts.Connection{
			Kind: oauthKind, Email: sub + "@example.com", GoogleSub: sub,
			Credential: &calferryv1.Credential{RefreshToken: id, ClientId: "4242-abc.apps.example", ClientSecret: "s"},
			Consent:    &accounts.Consent{NewID: id, Began: r.now()},
		})
		require.NoError(t, err)
	}
	connect("a1", "ada")
	// The same person in the same project, connected by hand: Google would end that grant too.
	second, err := r.keeper.Connect(t.Context(), accounts.Connection{
		Kind: oauthKind, Email: "ada@example.com", GoogleSub: "ada",
		Credential: &calferryv1.Credential{RefreshToken: "a2", ClientId: "4242-abc.apps.example", ClientSecret: "s"},
	})
	require.NoError(t, err)
	require.NoError(t, r.keeper.Remove(t.Context(), "a1"))
	require.Empty(t, back)
	require.NoError(t, r.keeper.Remove(t.Context(), second.GetId()))
	require.Equal(t, []string{"a2"}, back)

	connect("a3", "bob")
	fails = errors.New("Google is out")
	require.ErrorIs(t, r.keeper.Remove(t.Context(), "a3"), accounts.ErrNotGivenBack)
	_, err = r.reg.Account(t.Context(), "a3")
	require.ErrorIs(t, err, registry.ErrNotFound, "it is removed all the same")

	connect("a4", "eve")
	_, err = r.keeper.Revoked(t.Context(), "a4", "invalid_grant", r.now().Add(time.Second))
	require.NoError(t, err)
	require.NoError(t, r.keeper.Remove(t.Context(), "a4"), "there is nothing to give back")
}

func TestCalendarIntents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.keeper.Connect(t.Context(), r.consented("a1", "ada", "one"))
	require.NoError(t, err)
	first, again, err := r.keeper.IntendCalendar(t.Context(), "a1", "Terms", "Europe/Vienna")
	require.NoError(t, err)
	require.False(t, again)
	_, _, err = r.replica.IntendCalendar(t.Context(), "a1", "Terms", "UTC")
	require.ErrorIs(t, err, accounts.ErrCreating)
	r.pass(time.Minute)
	taken, again, err := r.replica.IntendCalendar(t.Context(), "a1", "Terms", "UTC")
	require.NoError(t, err)
	require.True(t, again)
	require.Equal(t, first.GetToken(), taken.GetToken(), "one wish has one mark")
	_, _, err = r.keeper.IntendCalendar(t.Context(), "a1", "Terms", "UTC")
	require.ErrorIs(t, err, accounts.ErrCreating, "the second attempt is under way")
	require.NoError(t, r.keeper.ForgetIntent(t.Context(), "a1", first.GetToken()))
	other, again, err := r.keeper.IntendCalendar(t.Context(), "a1", "Terms", "UTC")
	require.NoError(t, err)
	require.False(t, again)
	require.NotEqual(t, first.GetToken(), other.GetToken())
	for i := range 49 {
		_, _, err = r.keeper.IntendCalendar(t.Context(), "a1", time.Duration(i).String(), "UTC")
		require.NoError(t, err)
	}
	_, _, err = r.keeper.IntendCalendar(t.Context(), "a1", "one too many", "UTC")
	require.ErrorIs(t, err, accounts.ErrIntents)
	_, _, err = r.keeper.IntendCalendar(t.Context(), "gone", "Terms", "UTC")
	require.ErrorIs(t, err, registry.ErrNotFound)
}
