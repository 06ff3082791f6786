package api

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// planPatience bounds one plan: a person waits for it.
	planPatience = 30 * time.Second
	// defaultSample and maxSample bound the events that a plan lists.
	defaultSample = 50
	maxSample     = 500
	// maxPlanNotes bounds what a plan says about a feed.
	maxPlanNotes = 50
)

// Feeds reads feeds, under the rules that the fetcher reads them under. Its errors are those of pkg/feed.
type Feeds interface {
	Get(ctx context.Context, req feed.Request) (*feed.Response, error)
}

// preview is what one plan is made from.
type preview struct {
	source *calferryv1.FeedSource
	local  bool
	// calendar is the one that the feed is meant for, if that is known.
	calendar string
	settings plan.Settings
	view     plan.View
}

// PlanSubscription reads a feed, within 30 s, and tells what a sync would write. It stores nothing and writes nothing.
func (s *Service) PlanSubscription(ctx context.Context, req *connect.Request[calferryv1.PlanSubscriptionRequest]) (*connect.Response[calferryv1.PlanSubscriptionResponse], error) {
	ctx, cancel := context.WithTimeout(ctx, planPatience)
	defer cancel()
	p, err := s.preview(ctx, req.Msg)
	if err != nil {
		return nil, s.failed(ctx, "plan", err)
	}
	desired, err := s.readFeed(ctx, p)
	if err != nil {
		return nil, s.failed(ctx, "read the feed", err)
	}
	out := &calferryv1.PlanSubscriptionResponse{
		FeedAction: string(desired.Action), Reason: cmp.Or(desired.Detail, desired.Reason), FeedName: desired.Name,
		Read: count(desired.Read), Skipped: count(desired.Skipped), Events: count(len(desired.Events)), Notes: planNotes(desired.Notes),
	}
	if req.Msg.GetFeed() != nil {
		out.Warnings = s.twins(p.source, p.calendar, req.Msg.GetId())
	}
	if desired.RefreshInterval > 0 {
		out.RefreshInterval = durationpb.New(desired.RefreshInterval)
	}
	if desired.Action == plan.Reject {
		return connect.NewResponse(out), nil
	}
	delta := plan.Diff(desired, p.view, p.settings)
	out.Creates, out.Updates, out.Deletes = count(delta.Creates), count(delta.Updates), count(delta.Deletes)
	out.Unchanged, out.Held = count(delta.Unchanged), count(len(delta.Held))
	out.Notes = append(out.Notes, planNotes(delta.Notes)...)
	size := min(int(cmp.Or(req.Msg.GetMaxEvents(), defaultSample)), maxSample)
	out.Sample = s.sample(req.Msg.GetId(), desired, delta, p.view, size)
	return connect.NewResponse(out), nil
}

// preview gathers a plan's inputs: those of a stored subscription, overridden by what the request sets.
func (s *Service) preview(ctx context.Context, in *calferryv1.PlanSubscriptionRequest) (*preview, error) {
	if err := checkOptions(in.GetOptions()); err != nil {
		return nil, err
	}
	if zone := in.GetCalendarTimeZone(); zone != "" && !isZone(zone) {
		return nil, invalid("calendar_time_zone %q is not an IANA zone such as Europe/Vienna", zone)
	}
	p := &preview{calendar: in.GetCalendarId(), settings: plan.Settings{CalendarZone: in.GetCalendarTimeZone(), Now: s.Now(), Options: in.GetOptions()}}
	if in.GetId() != "" {
		if err := s.previewStored(ctx, in.GetId(), p); err != nil {
			return nil, err
		}
	} else if in.GetFeed() == nil {
		return nil, invalid("id and feed are missing: name a subscription, or give a feed's address")
	}
	if in.GetFeed() != nil {
		parsed, err := parseFeed(in.GetFeed(), s.Places)
		if err != nil {
			return nil, err
		}
		p.source, p.local = parsed.source, parsed.local
	}
	p.settings.CalendarZone = cmp.Or(p.settings.CalendarZone, "UTC")
	return p, nil
}

// previewStored takes over what the registry, the ledger and the decisions about holds know of a subscription.
func (s *Service) previewStored(ctx context.Context, id string, p *preview) error {
	rec, err := s.Registry.Subscription(ctx, id)
	if err != nil {
		return err
	}
	sub := rec.Value
	if s.FeedKey == nil {
		return Error(CodeMissingKey, "this service has no feed key, so it cannot open the feed's address; set its key file")
	}
	if p.source, err = registry.OpenFeed(s.FeedKey, sub); err != nil {
		return err
	}
	p.local, p.calendar = sub.GetLocalFeed(), sub.GetTarget().GetCalendarId()
	p.settings.FeedName, p.settings.Since = sub.GetName(), sub.GetCreatedAt().AsTime()
	p.settings.CalendarZone = cmp.Or(p.settings.CalendarZone, sub.GetCalendarTimeZone())
	if p.settings.Options == nil {
		p.settings.Options = sub.GetOptions()
	}
	head, err := s.Ledger.Head(ctx, id)
	if err != nil {
		return err
	}
	p.settings.Identity = head.GetIdentity()
	return s.known(ctx, id, head, &p.view)
}

// known fills in what Google is known to hold.
func (s *Service) known(ctx context.Context, id string, head *ledger.Head, view *plan.View) error {
	pages, err := s.Ledger.Pages(ctx, id, head)
	if err != nil {
		return err
	}
	decided, err := s.Holds.Decisions(ctx, id)
	if err != nil {
		return err
	}
	*view = plan.View{
		Entries: pages.ByKey(), Intents: head.OpenIntents(), Held: head.GetHeld(), Reissue: head.GetReissue(),
		Approved: map[string]bool{}, Discarded: map[string]bool{},
	}
	for _, key := range decided.GetApproved() {
		view.Approved[key] = true
	}
	for _, key := range decided.GetDiscarded() {
		view.Discarded[key] = true
	}
	return nil
}

func (s *Service) readFeed(ctx context.Context, p *preview) (*plan.Plan, error) {
	resp, err := s.Feeds.Get(ctx, feed.Request{Source: p.source, Local: p.local})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	desired, err := plan.Desired(resp.Body, p.settings)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return nil, err
	}
	if resp.Body.Cut() != nil {
		desired.BreakOff()
	}
	return desired, nil
}

// sample lists what happens to events, soonest first: all that change and that stay, then what is held.
func (s *Service) sample(subscription string, desired *plan.Plan, delta *plan.Delta, view plan.View, size int) []*calferryv1.PlannedEvent {
	ops := make(map[string]calferryv1.Op, len(delta.Changes))
	for _, change := range delta.Changes {
		ops[change.GetKey()] = change.GetOp()
	}
	wanted := slices.Clone(desired.Events)
	slices.SortStableFunc(wanted, func(a, b event.Desired) int {
		return cmp.Or(a.NextStart.Compare(b.NextStart), strings.Compare(a.Key, b.Key))
	})
	var out []*calferryv1.PlannedEvent
	inFeed := make(map[string]bool, len(wanted))
	for _, e := range wanted {
		inFeed[e.Key] = true
		if len(out) < size {
			_, changes := ops[e.Key]
			out = append(out, planned(e, verb(changes, view.Entries[e.Key])))
		}
	}
	title := func(key string) string {
		return cmp.Or(delta.Titles[key], s.Holds.Title(subscription, view.Entries[key].GetSealedTitle()))
	}
	for _, change := range delta.Changes {
		if key := change.GetKey(); !inFeed[key] && len(out) < size {
			out = append(out, &calferryv1.PlannedEvent{Key: key, Change: "delete", Title: title(key)})
		}
	}
	for _, held := range delta.Held {
		if len(out) < size {
			out = append(out, &calferryv1.PlannedEvent{Key: held.GetKey(), Change: "held", Title: title(held.GetKey())})
		}
	}
	return out
}

func verb(changes bool, entry *calferryv1.Entry) string {
	switch {
	case !changes:
		return "unchanged"
	case entry == nil || entry.GetState() == calferryv1.EntryState_ENTRY_STATE_DELETED:
		return "create"
	default:
		return "update"
	}
}

func planned(e event.Desired, change string) *calferryv1.PlannedEvent {
	start, end := e.Body.Start, e.Body.End
	return &calferryv1.PlannedEvent{
		Key: e.Key, Change: change, Title: e.Body.Summary, Location: e.Body.Location,
		Start: cmp.Or(start.DateTime, start.Date), End: cmp.Or(end.DateTime, end.Date),
		TimeZone: start.TimeZone, Recurrence: e.Body.Recurrence,
	}
}

func planNotes(notes []plan.Note) []string {
	var out []string
	for _, n := range notes {
		if len(out) == maxPlanNotes {
			return append(out, fmt.Sprintf("and %d more", len(notes)-maxPlanNotes))
		}
		text := string(n.Kind) + ": " + n.Text
		if n.Line > 0 {
			text = fmt.Sprintf("line %d: %s", n.Line, text)
		}
		out = append(out, text)
	}
	return out
}

func count(n int) uint32 { return uint32(max(0, n)) } //nolint:gosec // counts of events and records
