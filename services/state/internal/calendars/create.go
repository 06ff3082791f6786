package calendars

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/gcal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/api"
	"github.com/calferry/calferry/services/state/internal/oauth"
)

// recordPatience bounds the record of an outcome whose caller has gone.
const recordPatience = 5 * time.Second

// Create makes a calendar of that name, once. The intent is recorded first; when an earlier attempt's outcome was never
// learned, the account's list is searched for the calendar, by a mark in its description, before another is made. An account
// that may not see its list gets api.ErrUnanswered then. Other errors are those of accounts.IntendCalendar, or a *gcal.Error.
func (b *Book) Create(ctx context.Context, account, summary, zone string) (api.ListedCalendar, error) {
	rec, err := b.registry.Account(ctx, account)
	if err != nil {
		return api.ListedCalendar{}, err
	}
	if !may(rec.Value, oauth.ScopeAppCreated) {
		return api.ListedCalendar{}, fmt.Errorf("%w; allow it on the account's calendars page in the console, or with `calferry account reconnect %s --new-calendars`", api.ErrMayNotMake, account)
	}
	intent, again, err := b.accounts.IntendCalendar(ctx, account, summary, zone)
	if err != nil {
		return api.ListedCalendar{}, err
	}
	if again {
		found, err := b.find(ctx, rec.Value, intent)
		if err != nil || found.ID != "" {
			return found, err
		}
	}
	made, err := b.client.Account(account).Create(ctx, summary, mark(intent.GetToken()), intent.GetTimeZone())
	if err == nil {
		b.settle(ctx, account, intent)
		return shown(made), nil
	}
	failure, ok := errors.AsType[*gcal.Error](err)
	if !ok || failure.Ambiguous {
		return api.ListedCalendar{}, fmt.Errorf("%w (%w); wait a minute and create it under the same name again: a calendar that is there is then found", api.ErrUnanswered, err)
	}
	// Refused, so it was not made.
	b.settle(ctx, account, intent)
	return api.ListedCalendar{}, err
}

// find looks for the calendar of an intent.
func (b *Book) find(ctx context.Context, account *calferryv1.Account, intent *calferryv1.CalendarIntent) (api.ListedCalendar, error) {
	if !may(account, oauth.ScopeListRead) {
		return api.ListedCalendar{}, fmt.Errorf("%w %q when it was asked before, and this account does not let Calferry see its list; "+
			"reconnect it for existing calendars and create it again, or take another name", api.ErrUnanswered, intent.GetSummary())
	}
	for page := ""; ; {
		listed, next, err := b.client.Account(account.GetId()).Calendars(ctx, page, listSize)
		if err != nil {
			return api.ListedCalendar{}, err
		}
		i := slices.IndexFunc(listed, func(c gcal.Listed) bool { return strings.Contains(c.Description, mark(intent.GetToken())) })
		if i >= 0 {
			b.settle(ctx, account.GetId(), intent)
			return shown(listed[i]), nil
		}
		if page = next; page == "" {
			return api.ListedCalendar{}, nil
		}
	}
}

// settle takes the intent back; left behind it costs a look at the list, and nothing else.
func (b *Book) settle(ctx context.Context, account string, intent *calferryv1.CalendarIntent) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
	defer cancel()
	if err := b.accounts.ForgetIntent(ctx, account, intent.GetToken()); err != nil {
		b.log.WarnContext(ctx, "Could not record that a calendar was made", slog.String("account", account), slog.Any("error", err))
	}
}

// mark is what a calendar's description tells it by.
func mark(token string) string { return "Kept by Calferry (" + token + ")" }

// may tells whether the account's grant holds a scope. What a fixed token, a service account or a refresh token that was given by
// hand may do is not known before Google is asked.
func may(account *calferryv1.Account, scope string) bool {
	return account.GetKind() != calferryv1.AccountKind_ACCOUNT_KIND_OAUTH || len(account.GetScopes()) == 0 || oauth.Holds(account.GetScopes(), scope)
}
