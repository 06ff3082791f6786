package oneshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// follower follows a subscription's reports until the sync has come to an end.
type follower struct {
	r       *Runner
	sub     string
	reports *nats.Subscription
	sync    *calferryv1.SyncReport // the newest that read the feed
	turn    *calferryv1.TurnReport // the newest of that sync
	// first is the first sync of this run: a large feed takes several. earlier are the counts of those before the newest.
	first   uint64
	earlier map[uint64]*calferryv1.Counts
	// published are the syncs of this run that had something to write, true once their last turn has reported.
	published map[uint64]bool
	// base is the newest sync before this run.
	base uint64
}

// lateReports bounds the wait for reports of syncs that are over: each turn reports a moment after it has woken the
// next fetch. Reports are lossy, so the wait has an end.
const lateReports = 5 * time.Second

func (r *Runner) follow(ctx context.Context, sub string) (*follower, error) {
	head, err := r.Stack.Ledger.Head(ctx, sub)
	if err != nil {
		return nil, fmt.Errorf("follow the sync: %w", err)
	}
	reports, err := r.Stack.NATS.SubscribeSync(streams.ReportSubject(sub))
	if err != nil {
		return nil, fmt.Errorf("follow the sync: %w", err)
	}
	return &follower{
		r: r, sub: sub, reports: reports, earlier: map[uint64]*calferryv1.Counts{}, published: map[uint64]bool{}, base: head.GetSync(),
	}, nil
}

func (f *follower) close() { _ = f.reports.Unsubscribe() }

// wait returns when the sync has ended, one way or another.
func (f *follower) wait(ctx context.Context) (*Result, error) {
	for {
		msg, err := f.next(ctx, time.Second)
		switch {
		case err != nil && ctx.Err() != nil:
			return f.stopped(context.WithoutCancel(ctx), context.Cause(ctx))
		case errors.Is(err, context.DeadlineExceeded):
			f.progress(ctx) // turns save once a second, and report at their end
			continue
		case err != nil:
			return nil, fmt.Errorf("follow the sync: %w", err)
		}
		// What has come is told, also when the context ends meanwhile.
		state, problem, err := f.read(context.WithoutCancel(ctx), msg)
		if err != nil {
			return nil, err
		}
		f.progress(ctx)
		if state != "" {
			if err := f.awaitEarlier(ctx); err != nil {
				return nil, err
			}
			return f.result(context.WithoutCancel(ctx), state, problem)
		}
	}
}

// read takes a message that holds a report.
func (f *follower) read(ctx context.Context, msg *nats.Msg) (State, string, error) {
	report, err := streams.ParseReport(msg.Data)
	if err != nil {
		f.r.Stack.Log.WarnContext(ctx, "Could not read a report", slog.Any("error", err))
		return "", "", nil
	}
	return f.take(ctx, report)
}

// awaitEarlier waits for the last reports of syncs that are over, which tell what they wrote.
func (f *follower) awaitEarlier(ctx context.Context) error {
	until := time.Now().Add(lateReports)
	for f.awaited() {
		msg, err := f.next(ctx, time.Until(until))
		if err != nil {
			return nil //nolint:nilerr // it was lost, or nobody waits for it any more
		}
		if _, _, err := f.read(context.WithoutCancel(ctx), msg); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) awaited() bool {
	for sync, over := range f.published {
		if !over && sync < f.sync.GetSync() {
			return true
		}
	}
	return false
}

// drain takes the reports that have come already. It returns how the sync ended, "" when it did not.
func (f *follower) drain(ctx context.Context) (end State, problem string, err error) {
	for {
		waiting, _, err := f.reports.Pending()
		if err != nil || waiting == 0 {
			return end, problem, err
		}
		msg, err := f.next(ctx, time.Second)
		if err != nil {
			return "", "", err
		}
		state, text, err := f.read(ctx, msg)
		if err != nil {
			return "", "", err
		}
		if state != "" {
			end, problem = state, text
		}
	}
}

// stopped sums up what was done and what is left when the sync's context ends.
func (f *follower) stopped(ctx context.Context, cause error) (*Result, error) {
	switch state, problem, err := f.drain(ctx); {
	case err != nil:
		return nil, fmt.Errorf("follow the sync: %w", err)
	case state != "":
		return f.result(ctx, state, problem)
	}
	if err := f.recall(ctx); err != nil {
		return nil, err
	}
	if errors.Is(cause, ErrTimeUp) {
		return f.result(ctx, TimedOut, cause.Error())
	}
	res, err := f.result(ctx, Interrupted, "")
	if err != nil {
		return nil, err
	}
	if f.sync == nil {
		res.Error = fmt.Sprintf("%v before the feed was read; the same command begins again", cause)
		return res, nil
	}
	res.Error = fmt.Sprintf("%v: %d written, %d waiting; what waits stays in the data directory, and the same command goes on with it",
		cause, res.Created+res.Updated+res.Deleted, res.Waiting)
	return res, nil
}

// recall makes up for a fetch that was stopped between its ChangeSet and its report: the ledger knows of its sync.
func (f *follower) recall(ctx context.Context) error {
	if f.sync != nil {
		return nil
	}
	head, err := f.r.Stack.Ledger.Head(ctx, f.sub)
	if err != nil {
		return err
	}
	if p := head.GetProgress(); head.GetSync() > f.base && p.GetSync() == head.GetSync() {
		f.sync = &calferryv1.SyncReport{
			Sync: head.GetSync(), Outcome: calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED, Creates: p.GetCounts().GetPlanned(),
		}
	}
	return nil
}

// take returns how the sync ended, "" while it goes on.
func (f *follower) take(ctx context.Context, report *calferryv1.Report) (State, string, error) {
	if s := report.GetSync(); s != nil {
		if s.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED {
			f.sync = s
			if isFeed(s.GetErrorClass()) {
				return FeedFailed, s.GetError(), nil
			}
			return Failed, s.GetError(), nil
		}
		if f.sync == nil {
			f.first = s.GetSync()
		} else if f.turn != nil && f.turn.GetSync() < s.GetSync() {
			f.earlier[f.turn.GetSync()], f.turn = f.turn.GetCounts(), nil
		}
		f.sync = s
		if s.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED {
			f.published[s.GetSync()] = f.published[s.GetSync()]
		}
		return f.ended(ctx)
	}
	t := report.GetTurn()
	if end := t.GetEndedBy(); end == calferryv1.TurnEnd_TURN_END_DONE || end == calferryv1.TurnEnd_TURN_END_REPLACED {
		f.published[t.GetSync()] = true
	}
	if f.sync == nil || t.GetSync() < f.first {
		return "", "", nil // the queue's leftovers of an earlier run
	}
	if t.GetSync() < f.sync.GetSync() { // it woke the fetch before it reported
		f.earlier[t.GetSync()] = t.GetCounts()
		return "", "", nil
	}
	f.turn = t
	switch t.GetErrorClass() {
	case calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED:
		return AuthFailed, t.GetError(), nil
	case calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_GONE, calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_READ_ONLY:
		return CalendarFailed, t.GetError(), nil
	case calferryv1.ErrorClass_ERROR_CLASS_OPERATOR:
		return Failed, t.GetError(), nil
	}
	return f.ended(ctx)
}

func isFeed(c calferryv1.ErrorClass) bool {
	switch c {
	case calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE, calferryv1.ErrorClass_ERROR_CLASS_FEED_AUTH,
		calferryv1.ErrorClass_ERROR_CLASS_FEED_INVALID, calferryv1.ErrorClass_ERROR_CLASS_FEED_GONE:
		return true
	}
	return false
}

// ended asks the ledger, which alone knows what is pending.
func (f *follower) ended(ctx context.Context) (State, string, error) {
	head, err := f.r.Stack.Ledger.Head(ctx, f.sub)
	if err != nil {
		return "", "", err
	}
	if head.GetSync() != f.sync.GetSync() || head.GetSettled() != head.GetSync() || len(head.GetIntents()) > 0 || head.GetCut() {
		return "", "", nil
	}
	if n := len(head.GetHeld()); n > 0 {
		return Held, fmt.Sprintf("%d deletes look like an accident of the feed and wait for approval", n), nil
	}
	entries, err := f.entries(ctx, head)
	if err != nil {
		return "", "", err
	}
	if n := len(entries[calferryv1.EntryState_ENTRY_STATE_QUARANTINED]); n > 0 {
		return Quarantined, fmt.Sprintf("Google refuses %d of the feed's events", n), nil
	}
	return Settled, "", nil
}

// entries are what the ledger holds, by state: of this sync and of all before.
func (f *follower) entries(ctx context.Context, head *ledger.Head) (map[calferryv1.EntryState][]*calferryv1.Entry, error) {
	pages, err := f.r.Stack.Ledger.Pages(ctx, f.sub, head)
	if err != nil {
		return nil, err
	}
	entries := map[calferryv1.EntryState][]*calferryv1.Entry{}
	for e := range pages.All() {
		entries[e.GetState()] = append(entries[e.GetState()], e)
	}
	return entries, nil
}

// next waits for a report, so long at most.
func (f *follower) next(ctx context.Context, patience time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return f.reports.NextMsgWithContext(ctx)
}

// progress tells where the sync stands by the ledger.
func (f *follower) progress(ctx context.Context) {
	if f.r.Progress == nil || f.sync == nil {
		return
	}
	head, err := f.r.Stack.Ledger.Head(ctx, f.sub)
	if err != nil || head.GetProgress().GetSync() != f.sync.GetSync() {
		return
	}
	c := head.GetProgress().GetCounts()
	p := Progress{
		Written: int(c.GetCreated() + c.GetUpdated() + c.GetDeleted()), Waiting: int(c.GetRemaining()),
		Throttled: int(c.GetThrottled()), Pace: f.turn.GetPace(),
	}
	for _, e := range f.earlier {
		p.Written, p.Throttled = p.Written+int(e.GetCreated()+e.GetUpdated()+e.GetDeleted()), p.Throttled+int(e.GetThrottled())
	}
	if f.turn.GetResumesAt() != nil {
		p.ResumesAt = f.turn.GetResumesAt().AsTime()
	}
	f.r.Progress(p)
}

// result sums the sync up. The counts are the ledger's, which are saved with the work itself.
func (f *follower) result(ctx context.Context, state State, problem string) (*Result, error) {
	res := newResult(state, problem)
	if f.sync == nil {
		return res, nil
	}
	s := f.sync
	res.Planned = int(s.GetCreates() + s.GetUpdates() + s.GetDeletes())
	res.Unchanged, res.Held = int(s.GetUnchanged()), int(s.GetHeld())
	res.Warnings = append(res.Warnings, s.GetNotes()...)
	head, err := f.r.Stack.Ledger.Head(ctx, f.sub)
	if err != nil {
		return nil, err
	}
	entries, err := f.entries(ctx, head)
	if err != nil {
		return nil, err
	}
	res.quarantine(entries[calferryv1.EntryState_ENTRY_STATE_QUARANTINED])
	switch s.GetOutcome() {
	case calferryv1.SyncOutcome_SYNC_OUTCOME_UNCHANGED: // its reader was not even started
		res.Unchanged = len(entries[calferryv1.EntryState_ENTRY_STATE_LIVE])
	case calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED:
		if p := head.GetProgress(); p.GetSync() == s.GetSync() {
			res.count(p.GetCounts(), int(s.GetCreates()+s.GetUpdates()))
		}
	}
	for _, c := range f.earlier {
		res.add(c)
	}
	return res, nil
}

// ErrTimeUp is the cause of a sync's context when its time is up.
var ErrTimeUp = errors.New("the time is up; what waits stays in the data directory, and the same command goes on with it")
