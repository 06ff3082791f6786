// Package calendars asks Google about the calendars that subscriptions are pointed at, and makes new ones.
//
// It guarantees that one wish for a calendar never makes two, whatever is lost on the way.
package calendars

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/services/state/internal/accounts"
	"github.com/calferry/calferry/services/state/internal/api"
	"github.com/calferry/calferry/services/state/internal/oauth"
)

// listSize is the most that Google gives in one page of a list.
const listSize = 250

// Book asks Google in the name of accounts. It is safe for concurrent use.
type Book struct {
	client   *gcal.Client
	registry *registry.Registry
	accounts *accounts.Keeper
	log      *slog.Logger
}

// New makes a book.
func New(client *gcal.Client, reg *registry.Registry, keeper *accounts.Keeper, log *slog.Logger) *Book {
	return &Book{client: client, registry: reg, accounts: keeper, log: log}
}

// Look returns what Google tells about a calendar, or a *gcal.Error.
func (b *Book) Look(ctx context.Context, account, id string) (api.Calendar, error) {
	if id == gcal.Primary {
		own, err := b.primary(ctx, account)
		if err != nil {
			return api.Calendar{}, err
		}
		id = own
	}
	info, err := b.client.Calendar(account, id).Info(ctx)
	if err != nil {
		return api.Calendar{}, err
	}
	return api.Calendar{ID: id, TimeZone: info.TimeZone, Writable: writable(info.AccessRole)}, nil
}

// primary asks for the id of an account's own calendar. Where the grant does not let it see the list, the id is taken to be
// the account's address, which it is for every account whose address never changed.
func (b *Book) primary(ctx context.Context, account string) (string, error) {
	rec, err := b.registry.Account(ctx, account)
	if err != nil {
		return "", err
	}
	if may(rec.Value, oauth.ScopeListRead) {
		entry, err := b.client.Account(account).Entry(ctx, gcal.Primary)
		if err == nil && entry.ID != "" {
			return entry.ID, nil
		}
		if failure, ok := errors.AsType[*gcal.Error](err); ok && failure.Class != gcal.Operator && failure.Class != gcal.CalendarGone {
			return "", err
		}
	}
	if email := rec.Value.GetEmail(); email != "" {
		return email, nil
	}
	return "", &gcal.Error{
		Class: gcal.CalendarGone, Reason: "unknown address",
		Message: fmt.Sprintf("the address of account %s is not known, so neither is the id of its primary calendar; give the calendar's id instead", account),
	}
}

// List returns one page of an account's calendars, and the token of the next page. It fails with api.ErrListHidden when the account was
// connected without the right to it, or with a *gcal.Error.
func (b *Book) List(ctx context.Context, account, page string, size int) ([]api.ListedCalendar, string, error) {
	rec, err := b.registry.Account(ctx, account)
	if err != nil {
		return nil, "", err
	}
	if !may(rec.Value, oauth.ScopeListRead) {
		return nil, "", fmt.Errorf("%w; reconnect it for existing calendars, or create a new calendar", api.ErrListHidden)
	}
	if size = cmp.Or(size, listSize); size > listSize {
		size = listSize
	}
	listed, next, err := b.client.Account(account).Calendars(ctx, page, size)
	if err != nil {
		return nil, "", err
	}
	out := make([]api.ListedCalendar, 0, len(listed))
	for _, c := range listed {
		out = append(out, shown(c))
	}
	return out, next, nil
}

func shown(c gcal.Listed) api.ListedCalendar {
	return api.ListedCalendar{ID: c.ID, Summary: c.Summary, TimeZone: c.TimeZone, Writable: writable(c.AccessRole), Primary: c.Primary}
}

// writable takes a role that Google does not tell for one that may write: the first write finds out.
func writable(role string) bool {
	return role != "reader" && role != "freeBusyReader"
}
