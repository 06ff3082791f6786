package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// creating is how long the creation of a calendar may be under way: longer than any request that asks Google for it.
	creating = time.Minute
	// intentsKept bounds the open intents of an account: each is a question that nobody has answered.
	intentsKept = 50
)

var (
	// ErrCreating says that a calendar of that name is being made at this moment.
	ErrCreating = errors.New("a calendar of that name is being created right now")
	// ErrIntents says that too many creations were never answered.
	ErrIntents = errors.New("too many calendars were asked for without an answer")
)

// IntendCalendar records that a calendar of that name will be asked of Google. Again is true when it was recorded before, and
// the outcome was never learned: Google may hold that calendar already. It returns ErrCreating while another attempt may still
// be under way.
func (k *Keeper) IntendCalendar(ctx context.Context, account, summary, zone string) (intent *calferryv1.CalendarIntent, again bool, err error) {
	_, err = k.registry.UpdateAccount(ctx, account, func(a *calferryv1.Account) error {
		now := k.now()
		i := slices.IndexFunc(a.GetCalendarIntents(), func(c *calferryv1.CalendarIntent) bool { return c.GetSummary() == summary })
		if again = i >= 0; again {
			intent = a.GetCalendarIntents()[i]
			if now.Before(intent.GetAt().AsTime().Add(creating)) {
				return fmt.Errorf("%w; wait a minute and look again", ErrCreating)
			}
			intent.At = timestamppb.New(now)
			return nil
		}
		if len(a.GetCalendarIntents()) >= intentsKept {
			return fmt.Errorf("%w; reconnect the account so that it may see its list of calendars, and create one of the earlier names again", ErrIntents)
		}
		intent = &calferryv1.CalendarIntent{Token: registry.NewID(), Summary: summary, TimeZone: zone, At: timestamppb.New(now)}
		a.CalendarIntents = append(a.CalendarIntents, intent)
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("record the new calendar: %w", err)
	}
	return intent, again, nil
}

// ForgetIntent takes an intent back whose outcome is known.
func (k *Keeper) ForgetIntent(ctx context.Context, account, token string) error {
	_, err := k.registry.UpdateAccount(ctx, account, func(a *calferryv1.Account) error {
		left := slices.DeleteFunc(a.GetCalendarIntents(), func(c *calferryv1.CalendarIntent) bool { return c.GetToken() == token })
		a.CalendarIntents = left
		return nil
	})
	return unchanged("record the outcome for the new calendar", err)
}
