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

// Account stores a.
func (c *Clerk) Account(ctx context.Context, a Account) error {
	rec, err := c.Registry.Account(ctx, a.ID)
	if errors.Is(err, registry.ErrNotFound) {
		rec, err = &registry.Record[*calferryv1.Account]{Value: &calferryv1.Account{Id: a.ID}}, nil
	}
	if err != nil {
		return err
	}
	if rec.Revision != 0 && rec.Value.GetState() == calferryv1.AccountState_ACCOUNT_STATE_CONNECTED {
		if old, err := registry.OpenCredential(c.AccountKey, rec.Value); err == nil && old.GetAccessToken() == a.Token {
			return nil
		}
	}
	v := rec.Value
	if v.SealedCredential, err = registry.SealCredential(c.AccountKey, a.ID, &calferryv1.Credential{AccessToken: a.Token}); err != nil {
		return err
	}
	v.Kind, v.State = calferryv1.AccountKind_ACCOUNT_KIND_TOKEN, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED
	v.Project, v.GoogleSub, v.Email = a.Project, a.ID, a.Email
	v.ConnectedAt, v.Reason = timestamppb.Now(), ""
	return c.Registry.PutAccount(ctx, rec)
}

// Feed stores f and reports whether it is new. A subscription that its owner paused stays paused.
func (c *Clerk) Feed(ctx context.Context, f Feed) (created bool, err error) {
	rec, err := c.Registry.Subscription(ctx, f.ID)
	if errors.Is(err, registry.ErrNotFound) {
		rec, err = &registry.Record[*calferryv1.Subscription]{Value: &calferryv1.Subscription{Id: f.ID}}, nil
	}
	if err != nil {
		return false, err
	}
	sub, before := rec.Value, proto.CloneOf(rec.Value)
	if rec.Revision == 0 {
		created = true
		if sub.CalendarTimeZone, err = f.Zone(ctx); err != nil {
			return false, err
		}
		if sub.SealedFeed, err = registry.SealFeed(c.FeedKey, f.ID, &calferryv1.FeedSource{Url: f.Address}); err != nil {
			return false, err
		}
		sub.State, sub.CreatedAt = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE, c.now()
	}
	if f.Resume {
		sub.State = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE
	}
	sub.Name, sub.FeedLabel, sub.LocalFeed, sub.Options = f.Name, feed.Label(f.Address), true, f.Options
	sub.Target = &calferryv1.Target{
		Account: f.Account.ID, CalendarId: f.Calendar, Project: f.Account.Project, PaceUser: f.Account.ID,
		RememberedPace: sub.GetTarget().GetRememberedPace(),
	}
	if proto.Equal(before, sub) {
		return false, nil
	}
	sub.UpdatedAt = c.now()
	return created, c.Registry.PutSubscription(ctx, rec)
}
