package api

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	minInterval = time.Minute
	maxInterval = 30 * 24 * time.Hour
	maxName     = 200
)

// CreateSubscription stores a subscription and starts its first fetch. Google is asked for the calendar's id and zone
// unless the request has both.
func (s *Service) CreateSubscription(ctx context.Context, req *connect.Request[calferryv1.CreateSubscriptionRequest]) (*connect.Response[calferryv1.CreateSubscriptionResponse], error) {
	status, err := s.create(ctx, req.Msg, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE)
	if err != nil {
		return nil, err
	}
	warnings := s.twins(req.Msg.GetFeed(), status.GetCalendarId(), status.GetId())
	return connect.NewResponse(&calferryv1.CreateSubscriptionResponse{
		Subscription: status, Warnings: append(warnings, s.Namesakes(status.GetName(), status.GetId())...),
	}), nil
}

// create stores a subscription, and starts its fetch if it is active.
func (s *Service) create(ctx context.Context, in *calferryv1.CreateSubscriptionRequest, state calferryv1.SubscriptionState) (*calferryv1.SubscriptionStatus, error) {
	feed, err := parseFeed(in.GetFeed(), s.Places)
	if err != nil {
		return nil, err
	}
	if err := checkOptions(in.GetOptions()); err != nil {
		return nil, err
	}
	if err := checkInterval(in.GetInterval().AsDuration()); err != nil {
		return nil, err
	}
	name := cmp.Or(strings.TrimSpace(in.GetName()), feed.label)
	if len(name) > maxName {
		return nil, invalid("name has %d bytes: at most %d", len(name), maxName)
	}
	if in.GetAccount() == "" {
		return nil, invalid("account is missing: connect one and give its id")
	}
	account, err := s.Registry.Account(ctx, in.GetAccount())
	if err != nil {
		return nil, s.failed(ctx, "create subscription", err)
	}
	calendar, err := s.calendar(ctx, in)
	if err != nil {
		return nil, err
	}
	if s.FeedKey == nil {
		return nil, Error(CodeMissingKey, "this service has no feed key, so it cannot keep a feed's address; set its key file")
	}
	id := registry.NewID()
	sealed, err := registry.SealFeed(s.FeedKey, id, feed.source)
	if err != nil {
		return nil, s.failed(ctx, "create subscription", err)
	}
	now := timestamppb.New(s.Now())
	rec := &registry.Record[*calferryv1.Subscription]{Value: &calferryv1.Subscription{
		Id: id, Name: name, State: state,
		SealedFeed: sealed, FeedLabel: feed.label, LocalFeed: feed.local,
		Target:           s.target(account.Value, calendar.ID),
		CalendarTimeZone: calendar.TimeZone, Options: in.GetOptions(), Interval: in.GetInterval(),
		CreatedAt: now, UpdatedAt: now,
	}}
	if err := s.Registry.PutSubscription(ctx, rec); err != nil {
		return nil, s.failed(ctx, "create subscription", err)
	}
	if state == calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE {
		s.start(ctx, id)
	}
	status, err := s.status(ctx, rec)
	if err != nil {
		return nil, s.failed(ctx, "create subscription", err)
	}
	return status, nil
}

// calendar resolves the calendar that a request names.
func (s *Service) calendar(ctx context.Context, in *calferryv1.CreateSubscriptionRequest) (Calendar, error) {
	id := cmp.Or(strings.TrimSpace(in.GetCalendarId()), "primary")
	zone := in.GetCalendarTimeZone()
	if zone != "" {
		if !isZone(zone) {
			return Calendar{}, invalid("calendar_time_zone %q is not an IANA zone such as Europe/Vienna; leave it empty to ask Google", zone)
		}
		if id != "primary" {
			return Calendar{ID: id, TimeZone: zone, Writable: true}, nil
		}
	}
	calendar, err := s.Calendars.Look(ctx, in.GetAccount(), id)
	if err != nil {
		return Calendar{}, s.google(ctx, "ask Google about the calendar", err)
	}
	if !calendar.Writable {
		return Calendar{}, Error(CodeCalendarReadOnly,
			"the account may only read calendar %s: in Google Calendar, give it the right to make changes to events, or choose another calendar", calendar.ID)
	}
	calendar.TimeZone = cmp.Or(zone, calendar.TimeZone, "UTC")
	return calendar, nil
}

// target says where writes go and what paces them. A pace that was learned for the same calendar is taken over.
func (s *Service) target(account *calferryv1.Account, calendarID string) *calferryv1.Target {
	target := &calferryv1.Target{
		Account: account.GetId(), CalendarId: calendarID, Project: account.GetProject(),
		PaceUser: cmp.Or(account.GetGoogleSub(), account.GetEmail(), account.GetId()),
	}
	for _, row := range s.Board.Rows() {
		same := row.Subscription.GetTarget()
		if same.GetCalendarId() == calendarID && same.GetProject() == target.GetProject() {
			target.RememberedPace = max(target.GetRememberedPace(), same.GetRememberedPace())
		}
	}
	return target
}

// UpdateSubscription changes what the request sets, and reads the feed again.
func (s *Service) UpdateSubscription(ctx context.Context, req *connect.Request[calferryv1.UpdateSubscriptionRequest]) (*connect.Response[calferryv1.UpdateSubscriptionResponse], error) {
	in := req.Msg
	if err := checkOptions(in.GetOptions()); err != nil {
		return nil, err
	}
	if err := checkInterval(in.GetInterval().AsDuration()); err != nil {
		return nil, err
	}
	if len(in.GetName()) > maxName {
		return nil, invalid("name has %d bytes: at most %d", len(in.GetName()), maxName)
	}
	var feed parsedFeed
	if in.GetFeed() != nil {
		var err error
		if feed, err = parseFeed(in.GetFeed(), s.Places); err != nil {
			return nil, err
		}
		if s.FeedKey == nil {
			return nil, Error(CodeMissingKey, "this service has no feed key, so it cannot keep a feed's address; set its key file")
		}
	}
	renamed := false
	status, err := s.edit(ctx, in.GetId(), func(sub *calferryv1.Subscription) error {
		if removing(sub) {
			return Error(CodeRemoving, "subscription %s is being removed; create it anew instead", sub.GetId())
		}
		name := cmp.Or(strings.TrimSpace(in.GetName()), sub.GetName())
		renamed = name != sub.GetName()
		sub.Name = name
		if in.GetOptions() != nil {
			sub.Options = in.GetOptions()
		}
		if in.GetInterval() != nil {
			sub.Interval = in.GetInterval()
		}
		if feed.source != nil {
			return s.setFeed(sub, feed)
		}
		return nil
	})
	if err != nil {
		return nil, s.failed(ctx, "update subscription", err)
	}
	out := &calferryv1.UpdateSubscriptionResponse{Subscription: status}
	if feed.source != nil {
		out.Warnings = s.twins(feed.source, status.GetCalendarId(), status.GetId())
	}
	if renamed {
		out.Warnings = append(out.Warnings, s.Namesakes(status.GetName(), status.GetId())...)
	}
	return connect.NewResponse(out), nil
}

// setFeed gives a subscription another feed.
func (s *Service) setFeed(sub *calferryv1.Subscription, feed parsedFeed) error {
	sealed, err := registry.SealFeed(s.FeedKey, sub.GetId(), feed.source)
	if err != nil {
		return err
	}
	sub.SealedFeed, sub.FeedLabel, sub.LocalFeed = sealed, feed.label, feed.local
	return nil
}

// PauseSubscription stops fetching and writing. Events stay in Google.
func (s *Service) PauseSubscription(ctx context.Context, req *connect.Request[calferryv1.PauseSubscriptionRequest]) (*connect.Response[calferryv1.PauseSubscriptionResponse], error) {
	status, err := s.pause(ctx, req.Msg.GetId())
	if err != nil {
		return nil, s.failed(ctx, "pause subscription", err)
	}
	return connect.NewResponse(&calferryv1.PauseSubscriptionResponse{Subscription: status}), nil
}

func (s *Service) pause(ctx context.Context, id string) (*calferryv1.SubscriptionStatus, error) {
	status, err := s.wish(ctx, id, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED)
	if err != nil {
		return nil, err
	}
	rec, err := s.Registry.Subscription(ctx, id)
	if err != nil {
		return nil, err
	}
	return status, s.Turns.Halt(ctx, rec.Value)
}

// ResumeSubscription ends a pause and fetches at once.
func (s *Service) ResumeSubscription(ctx context.Context, req *connect.Request[calferryv1.ResumeSubscriptionRequest]) (*connect.Response[calferryv1.ResumeSubscriptionResponse], error) {
	status, err := s.wish(ctx, req.Msg.GetId(), calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE)
	if err != nil {
		return nil, s.failed(ctx, "resume subscription", err)
	}
	return connect.NewResponse(&calferryv1.ResumeSubscriptionResponse{Subscription: status}), nil
}

// wish changes what is wanted of a subscription, and lets the fetcher act on it.
func (s *Service) wish(ctx context.Context, id string, state calferryv1.SubscriptionState) (*calferryv1.SubscriptionStatus, error) {
	return s.edit(ctx, id, wishes(state))
}

// wishOnly does so without starting a fetch.
func (s *Service) wishOnly(ctx context.Context, id string, state calferryv1.SubscriptionState) error {
	rec, err := s.change(ctx, id, wishes(state))
	if err == nil {
		s.Board.Put(rec)
	}
	return err
}

func wishes(state calferryv1.SubscriptionState) func(*calferryv1.Subscription) error {
	return func(sub *calferryv1.Subscription) error {
		if removing(sub) {
			return Error(CodeRemoving, "subscription %s is being removed, which cannot be stopped; create it anew afterwards", sub.GetId())
		}
		sub.State = state
		return nil
	}
}

// SyncSubscription fetches the feed at once, whatever its interval.
func (s *Service) SyncSubscription(ctx context.Context, req *connect.Request[calferryv1.SyncSubscriptionRequest]) (*connect.Response[calferryv1.SyncSubscriptionResponse], error) {
	rec, err := s.Registry.Subscription(ctx, req.Msg.GetId())
	if err != nil {
		return nil, s.failed(ctx, "sync subscription", err)
	}
	if rec.Value.GetState() == calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED {
		return nil, Error(CodePaused, "subscription %s is paused; resume it, which syncs it too", rec.Value.GetId())
	}
	if err := s.Turns.Now(ctx, rec.Value.GetId()); err != nil {
		return nil, s.failed(ctx, "sync subscription", err)
	}
	status, err := s.status(ctx, rec)
	if err != nil {
		return nil, s.failed(ctx, "sync subscription", err)
	}
	return connect.NewResponse(&calferryv1.SyncSubscriptionResponse{Subscription: status}), nil
}

// RemoveSubscription begins a removal. The record goes when the fetcher has taken down the rest.
func (s *Service) RemoveSubscription(ctx context.Context, req *connect.Request[calferryv1.RemoveSubscriptionRequest]) (*connect.Response[calferryv1.RemoveSubscriptionResponse], error) {
	keep, purge := calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_KEEP, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_PURGE
	status, err := s.edit(ctx, req.Msg.GetId(), func(sub *calferryv1.Subscription) error {
		switch {
		case req.Msg.GetPurge():
			sub.State = purge
		case sub.GetState() == purge:
			return Error(CodeRemoving, "the events of subscription %s are being deleted already; wait until it is gone", sub.GetId())
		default:
			sub.State = keep
		}
		return nil
	})
	if err != nil {
		return nil, s.failed(ctx, "remove subscription", err)
	}
	return connect.NewResponse(&calferryv1.RemoveSubscriptionResponse{Subscription: status}), nil
}

// edit changes a record and starts its turn, so that the fetcher acts on the change now.
func (s *Service) edit(ctx context.Context, id string, change func(*calferryv1.Subscription) error) (*calferryv1.SubscriptionStatus, error) {
	rec, err := s.change(ctx, id, change)
	if err != nil {
		return nil, err
	}
	s.start(ctx, id)
	return s.status(ctx, rec)
}

func (s *Service) change(ctx context.Context, id string, change func(*calferryv1.Subscription) error) (*registry.Record[*calferryv1.Subscription], error) {
	return s.Registry.UpdateSubscription(ctx, id, func(sub *calferryv1.Subscription) error {
		if err := change(sub); err != nil {
			return err
		}
		sub.UpdatedAt = timestamppb.New(s.Now())
		return nil
	})
}

// start begins the subscription's fetch. The change that asks for it is stored already, so a queue that cannot be
// reached only makes it later: the turn is restored, or comes with its interval.
func (s *Service) start(ctx context.Context, id string) {
	if err := s.Turns.Now(ctx, id); err != nil {
		s.Log.WarnContext(ctx, "Could not start a fetch turn at once", slog.String("subscription", id), slog.Any("error", err))
		s.Turns.Soon(id)
	}
}

func removing(sub *calferryv1.Subscription) bool {
	return sub.GetState() == calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_KEEP ||
		sub.GetState() == calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_PURGE
}
