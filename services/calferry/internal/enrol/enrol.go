// Package enrol puts what was named at the command line into the registry: an account that holds a fixed access
// token, and subscriptions whose feeds may be files or at private addresses.
//
// It guarantees that enrolling the same thing again changes nothing, so that a restart rewrites no record.
package enrol

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Clerk writes to the registry.
type Clerk struct {
	Registry            *registry.Registry
	FeedKey, AccountKey *seal.Key
	// Now is the clock of plans, which lay dates out from when a subscription was made; time.Now when nil.
	Now func() time.Time
}

func (c *Clerk) now() *timestamppb.Timestamp {
	if c.Now == nil {
		return timestamppb.Now()
	}
	return timestamppb.New(c.Now())
}

// Account is a Google account known by a token alone.
type Account struct {
	ID, Email, Token string
	// Project stands for the Google Cloud project, which a token does not tell.
	Project string
}

// Feed is a subscription to be.
type Feed struct {
	// ID tells it from all others; the same ID is the same subscription.
	ID, Name, Address string
	Account           Account
	Calendar          string
	// Zone returns the calendar's zone; it is called only when the subscription is new.
	Zone    func(context.Context) (string, error)
	Options *calferryv1.Options
	// Resume makes a paused subscription active again.
	Resume bool
}

// Account stores a, also while services write to the record.
func (c *Clerk) Account(ctx context.Context, a Account) error {
	_, err := c.Registry.UpdateAccount(ctx, a.ID, func(v *calferryv1.Account) error {
		if v.GetState() == calferryv1.AccountState_ACCOUNT_STATE_CONNECTED {
			if old, err := registry.OpenCredential(c.AccountKey, v); err == nil && old.GetAccessToken() == a.Token {
				return errSame
			}
		}
		return c.grant(v, a)
	})
	if errors.Is(err, registry.ErrNotFound) {
		v := &calferryv1.Account{Id: a.ID}
		if err := c.grant(v, a); err != nil {
			return err
		}
		return c.Registry.PutAccount(ctx, &registry.Record[*calferryv1.Account]{Value: v})
	}
	return changed(err)
}

func (c *Clerk) grant(v *calferryv1.Account, a Account) (err error) {
	if v.SealedCredential, err = registry.SealCredential(c.AccountKey, a.ID, &calferryv1.Credential{AccessToken: a.Token}); err != nil {
		return err
	}
	v.Kind, v.State = calferryv1.AccountKind_ACCOUNT_KIND_TOKEN, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED
	v.Project, v.GoogleSub, v.Email = a.Project, a.ID, a.Email
	v.ConnectedAt, v.Reason = timestamppb.Now(), ""
	return nil
}

// errSame leaves a record as it is.
var errSame = errors.New("nothing to change")

func changed(err error) error {
	if errors.Is(err, errSame) {
		return nil
	}
	return err
}

// Feed stores f, also while services write to the record, and reports whether it is new. A subscription that its owner
// paused stays paused.
func (c *Clerk) Feed(ctx context.Context, f Feed) (created bool, err error) {
	_, err = c.Registry.UpdateSubscription(ctx, f.ID, func(sub *calferryv1.Subscription) error {
		before := proto.CloneOf(sub)
		f.fill(sub)
		if proto.Equal(before, sub) {
			return errSame
		}
		sub.UpdatedAt = c.now()
		return nil
	})
	if !errors.Is(err, registry.ErrNotFound) {
		return false, changed(err)
	}
	sub := &calferryv1.Subscription{Id: f.ID, State: calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE, CreatedAt: c.now()}
	if sub.CalendarTimeZone, err = f.Zone(ctx); err != nil {
		return false, err
	}
	if sub.SealedFeed, err = registry.SealFeed(c.FeedKey, f.ID, &calferryv1.FeedSource{Url: f.Address}); err != nil {
		return false, err
	}
	f.fill(sub)
	sub.UpdatedAt = c.now()
	return true, c.Registry.PutSubscription(ctx, &registry.Record[*calferryv1.Subscription]{Value: sub})
}

// fill gives a subscription what f says of it.
func (f Feed) fill(sub *calferryv1.Subscription) {
	if f.Resume {
		sub.State = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE
	}
	sub.Name, sub.FeedLabel, sub.LocalFeed, sub.Options = f.Name, feed.Label(f.Address), true, f.Options
	sub.Target = &calferryv1.Target{
		Account: f.Account.ID, CalendarId: f.Calendar, Project: f.Account.Project, PaceUser: f.Account.ID,
		RememberedPace: sub.GetTarget().GetRememberedPace(),
	}
}
