// Package oneshot carries one feed into one calendar, once: through the same queues, pace and ledger as
// everything else, until nothing is pending.
//
// A second run over the same data directory compares the feed with the ledger of the first.
package oneshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/enrol"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

// project stands for the Google Cloud project, which an access token does not tell.
const project = "oneshot"

// Request is what to sync.
type Request struct {
	// Feed as typed; with Calendar it is the subscription's identity.
	Feed     string
	Calendar string
	// Endpoint of the Calendar API; Google's own when empty.
	Endpoint string
	Token    string
	// Zone of the calendar; asked of Google once when empty.
	Zone    string
	Options *calferryv1.Options
	// Check reads the feed before Google is asked for the calendar of a new subscription: a feed that cannot be
	// read costs no request, and what is told is that. Nil checks nothing.
	Check func(context.Context) error
}

// feedError is the answer of a Request's Check.
type feedError struct{ err error }

func (e *feedError) Error() string { return e.err.Error() }
func (e *feedError) Unwrap() error { return e.err }

// Runner runs a Request over a stack whose services are running.
type Runner struct {
	Stack *stack.Stack
	// Progress hears of every report; it may be nil.
	Progress func(Progress)

	asked int // requests to Google made by Run itself
}

// ID is the subscription's identity: a later run with the same feed and calendar goes on with its ledger.
func (r Request) ID() string { return streams.Token("oneshot\x00" + r.Feed + "\x00" + r.Calendar) }

func (r Request) account() string { return streams.Token("oneshot account\x00" + r.Calendar) }

// Prepare takes away what an earlier run of the same Request left queued, before the services run: the fetch of this run
// plans it again, and only then it is counted here.
func (r *Runner) Prepare(ctx context.Context, req Request) error {
	lane := streams.LaneToken(project, req.Calendar)
	if err := r.Stack.Changes.Remove(ctx, streams.ChangesKey(lane, req.ID())); err != nil {
		return fmt.Errorf("forget the queued writes of an earlier run: %w", err)
	}
	return nil
}

// Run syncs until settled, or until it is clear that this needs a person, or until ctx ends. The Result tells
// which; an error means that something of Calferry's own failed, or a *gcal.Error that the calendar could
// not be looked up.
func (r *Runner) Run(ctx context.Context, req Request) (*Result, error) {
	begin := time.Now()
	// Before the subscription is there, or active again: the services may fetch it at once by themselves.
	f, err := r.follow(ctx, req.ID())
	if err != nil {
		return nil, err
	}
	defer f.close()
	switch err := r.enrol(ctx, req); {
	case errors.As(err, new(*feedError)):
		res := newResult(FeedFailed, err.Error())
		res.DurationSeconds = time.Since(begin).Seconds()
		return res, nil
	case err != nil:
		return nil, err
	}
	if _, err := r.Stack.Fetch.Put(ctx, streams.FetchKey(req.ID()), nil); err != nil {
		return nil, fmt.Errorf("start the sync: %w", err)
	}
	res, err := f.wait(ctx)
	if err != nil {
		return nil, err
	}
	res.Requests += r.asked
	res.DurationSeconds = time.Since(begin).Seconds()
	return res, r.rest(context.WithoutCancel(ctx), req)
}

// enrol stores the account and the subscription, or brings those of an earlier run up to date.
func (r *Runner) enrol(ctx context.Context, req Request) error {
	clerk := &enrol.Clerk{Registry: r.Stack.Registry, FeedKey: r.Stack.FeedKey, AccountKey: r.Stack.AccountKey, Now: r.Stack.Now}
	account := enrol.Account{ID: req.account(), Email: "one-shot sync", Token: req.Token, Project: project}
	if err := clerk.Account(ctx, account); err != nil {
		return err
	}
	_, err := clerk.Feed(ctx, enrol.Feed{
		ID: req.ID(), Name: "one-shot sync", Address: req.Feed,
		Account: account, Calendar: req.Calendar, Options: req.Options,
		Zone: func(ctx context.Context) (string, error) { return r.zone(ctx, req) }, Resume: true,
	})
	return err
}

// rest pauses the subscription: a one-shot sync asks for no next fetch, and a later run over the same data
// directory, for another feed, must not read this one. Its queued writes stay.
func (r *Runner) rest(ctx context.Context, req Request) error {
	_, err := r.Stack.Registry.UpdateSubscription(ctx, req.ID(), func(sub *calferryv1.Subscription) error {
		sub.State = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED
		return nil
	})
	if err != nil {
		return fmt.Errorf("end the sync: %w", err)
	}
	if err := r.Stack.Fetch.Remove(ctx, streams.FetchKey(req.ID())); err != nil {
		return fmt.Errorf("end the sync: %w", err)
	}
	return nil
}

func (r *Runner) zone(ctx context.Context, req Request) (string, error) {
	if req.Zone != "" {
		return req.Zone, nil
	}
	if req.Check != nil {
		if err := req.Check(ctx); err != nil {
			return "", &feedError{err}
		}
	}
	client, err := gcal.New(gcal.Config{Endpoint: req.Endpoint, OnRequest: func(string, int) { r.asked++ }}, r.Stack.State.Broker())
	if err != nil {
		return "", err
	}
	var info gcal.CalendarInfo
	err = gcal.Retry(ctx, func(ctx context.Context) error {
		info, err = client.Calendar(req.account(), req.Calendar).Info(ctx)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("look up the calendar: %w", err)
	}
	return info.TimeZone, nil
}
