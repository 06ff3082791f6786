// Package calendars asks Google about the calendars that subscriptions are pointed at.
package calendars

import (
	"context"
	"fmt"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/services/state/internal/api"
)

// primary is Google's name for an account's own calendar, whose real id is the account's address.
const primary = "primary"

// Book asks Google in the name of accounts. It is safe for concurrent use.
type Book struct {
	client   *gcal.Client
	registry *registry.Registry
}

// New makes a book.
func New(client *gcal.Client, reg *registry.Registry) *Book {
	return &Book{client: client, registry: reg}
}

// Look returns what Google tells about a calendar, or a *gcal.Error.
func (b *Book) Look(ctx context.Context, account, id string) (api.Calendar, error) {
	if id == primary {
		rec, err := b.registry.Account(ctx, account)
		if err != nil {
			return api.Calendar{}, err
		}
		if id = rec.Value.GetEmail(); id == "" {
			return api.Calendar{}, &gcal.Error{
				Class: gcal.CalendarGone, Reason: "unknown address",
				Message: fmt.Sprintf("the address of account %s is not known, so neither is the id of its primary calendar; give the calendar's id instead", account),
			}
		}
	}
	info, err := b.client.Calendar(account, id).Info(ctx)
	if err != nil {
		return api.Calendar{}, err
	}
	return api.Calendar{ID: id, TimeZone: info.TimeZone, Writable: writable(info.AccessRole)}, nil
}

// writable takes a role that Google does not tell for one that may write: the first write finds out.
func writable(role string) bool {
	return role != "reader" && role != "freeBusyReader"
}
