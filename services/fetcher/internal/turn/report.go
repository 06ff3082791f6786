package turn

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// maxNotes is how many notes a report carries.
const maxNotes = 10

// note adds a note for people, unless it is there or the report is full.
func (t *turn) note(text string) {
	if len(t.report.GetNotes()) >= maxNotes || slices.Contains(t.report.GetNotes(), text) {
		return
	}
	t.report.Notes = append(t.report.Notes, text)
}

func (t *turn) noteMove(resp *feed.Response, known move) {
	if resp.MovedTo != "" || known.To != "" {
		t.note("the feed has moved for good, now answered by " + resp.Host + ": update its address")
	}
}

// describe puts what the plan says of the feed into the report.
func (t *turn) describe(p *plan.Plan) {
	r := t.report
	r.Events, r.Skipped, r.Warnings = uint32(p.Read), uint32(p.Skipped), 0 //nolint:gosec // bounded by the size of a body
	r.FeedAction = string(p.Action)
	t.tell(p.Notes)
	t.metrics.events.Add(float64(p.Read))
}

// tell adds a plan's notes to the report.
func (t *turn) tell(notes []plan.Note) {
	for _, n := range notes {
		if n.Kind != plan.NoteSkipped {
			t.report.Warnings++
		}
		text := n.Text
		if n.Line > 0 {
			text = fmt.Sprintf("line %d: %s", n.Line, n.Text)
		}
		t.note(text)
	}
}

// count puts what a sync changes into report and metrics.
func (t *turn) count(head *ledger.Head, delta *plan.Delta) {
	r := t.report
	r.Sync, r.Cut = head.GetSync(), head.GetCut()
	r.Creates, r.Updates, r.Deletes = uint32(delta.Creates), uint32(delta.Updates), uint32(delta.Deletes) //nolint:gosec // counts of events
	r.Unchanged, r.Held = uint32(delta.Unchanged), uint32(len(delta.Held))                                //nolint:gosec // counts of events
	t.tell(delta.Notes)
	t.metrics.change("create", delta.Creates)
	t.metrics.change("update", delta.Updates)
	t.metrics.change("delete", delta.Deletes)
	t.metrics.change("hold", len(delta.Held))
}

// publishReport completes and sends the report. Reports are lossy: an error is logged, and the turn goes on.
func (t *turn) publishReport(ctx context.Context, wait time.Duration) {
	now := t.Clock()
	r := t.report
	r.At, r.Took = timestamppb.New(now), durationpb.New(t.since())
	r.NextAt = timestamppb.New(now.Add(wait))
	t.metrics.outcome(r)
	level := slog.LevelInfo
	switch r.GetOutcome() {
	case calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED:
		level = slog.LevelWarn
	case calferryv1.SyncOutcome_SYNC_OUTCOME_UNCHANGED:
		level = slog.LevelDebug
	}
	t.Logger.LogAttrs(ctx, level, "Read a feed", slog.String("subscription", t.id),
		slog.String("feed", t.record.Value.GetFeedLabel()), slog.String("outcome", outcomeName(r)),
		slog.Uint64("sync", r.GetSync()), slog.Uint64("events", uint64(r.GetEvents())),
		slog.Uint64("creates", uint64(r.GetCreates())), slog.Uint64("updates", uint64(r.GetUpdates())),
		slog.Uint64("deletes", uint64(r.GetDeletes())), slog.Uint64("held", uint64(r.GetHeld())),
		slog.String("error", r.GetError()), slog.Duration("took", t.since()), slog.Duration("next", wait))
	report := &calferryv1.Report{Kind: &calferryv1.Report_Sync{Sync: r}}
	if err := streams.PublishReport(ctx, t.JetStream, report); err != nil {
		t.Logger.WarnContext(ctx, "A report was lost", slog.String("subscription", t.id), slog.Any("error", err))
	}
}
