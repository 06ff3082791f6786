package console

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/health"
)

// Line is one report in the timeline.
type Line struct {
	At     *timestamppb.Timestamp
	Sync   uint64
	Kind   string // fetch or write
	Tone   string // good, quiet, wait or bad
	Text   string
	Detail string
	Notes  []string
	// Resumes is when the work goes on, if it waits.
	Resumes *timestamppb.Timestamp
}

// lines puts reports, newest first, into words. Only the newest turn's wait is still to come.
func lines(history []*calferryv1.Report, now time.Time) []Line {
	out := make([]Line, 0, len(history))
	waits := true
	for _, r := range history {
		if s := r.GetSync(); s != nil {
			out = append(out, fetchLine(s))
			continue
		}
		l := turnLine(r.GetTurn())
		if !waits || !l.Resumes.AsTime().After(now) {
			l.Resumes = nil
		}
		waits = false
		out = append(out, l)
	}
	return out
}

func fetchLine(r *calferryv1.SyncReport) Line {
	l := Line{At: r.GetAt(), Sync: r.GetSync(), Kind: "fetch", Tone: "quiet", Notes: r.GetNotes()}
	switch r.GetOutcome() {
	case calferryv1.SyncOutcome_SYNC_OUTCOME_UNCHANGED:
		l.Text = "The feed has not changed"
	case calferryv1.SyncOutcome_SYNC_OUTCOME_SETTLED:
		l.Text = fmt.Sprintf("Read %s; nothing differs from Google", events(int(r.GetEvents())))
	case calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED:
		l.Text = fmt.Sprintf("Read %s; %s", events(int(r.GetEvents())), pending(r))
		l.Tone = "good"
	case calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED:
		l.Tone = "bad"
		l.Text, _ = explain(r.GetErrorClass())
		l.Detail = r.GetError()
		if r.GetErrorClass() == calferryv1.ErrorClass_ERROR_CLASS_THROTTLED {
			l.Tone = "wait"
		}
		return l
	}
	var extra []string
	if r.GetHttpStatus() > 0 {
		extra = append(extra, fmt.Sprintf("answered %d", r.GetHttpStatus()))
	}
	if r.GetBytes() > 0 {
		extra = append(extra, bytesText(r.GetBytes()))
	}
	if took := tookText(r.GetTook()); took != "" {
		extra = append(extra, took)
	}
	if n := r.GetSkipped(); n > 0 {
		extra = append(extra, fmt.Sprintf("%s skipped", events(int(n))))
	}
	if n := r.GetHeld(); n > 0 {
		extra = append(extra, plural(int(n), "deletion", "deletions")+" held")
		l.Tone = "wait"
	}
	if r.GetCut() {
		extra = append(extra, "too many writes for one message: the rest follows")
	}
	l.Detail = strings.Join(extra, ", ")
	return l
}

func pending(r *calferryv1.SyncReport) string {
	var parts []string
	for _, p := range []struct {
		n    uint32
		verb string
	}{{r.GetCreates(), "create"}, {r.GetUpdates(), "update"}, {r.GetDeletes(), "delete"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s to %s", number(p.n), p.verb))
		}
	}
	if len(parts) == 0 {
		return "nothing new to write"
	}
	return strings.Join(parts, ", ")
}

func turnLine(r *calferryv1.TurnReport) Line {
	c := r.GetCounts()
	l := Line{At: r.GetAt(), Sync: r.GetSync(), Kind: "write", Tone: "good", Resumes: r.GetResumesAt()}
	written := health.Written(c)
	switch {
	case r.GetEndedBy() == calferryv1.TurnEnd_TURN_END_REPLACED:
		l.Tone, l.Text, l.Resumes = "quiet", "Replaced by a newer sync", nil
		return l
	case r.GetEndedBy() == calferryv1.TurnEnd_TURN_END_BUSY:
		l.Tone, l.Text = "quiet", "Another subscription is writing to this calendar"
		return l
	case r.GetSettled():
		l.Text = fmt.Sprintf("Done: %s written", number(written))
	case c.GetRemaining() > 0:
		l.Text = fmt.Sprintf("%s written, %s waiting", number(written), number(c.GetRemaining()))
	default:
		l.Text = fmt.Sprintf("%s written", number(written))
	}
	var extra []string
	if said := throttles(r.GetThrottles()); said != "" {
		l.Tone = "wait"
		extra = append(extra, said)
	}
	if class := r.GetErrorClass(); class != calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED {
		title, _ := explain(class)
		switch class {
		case calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, calferryv1.ErrorClass_ERROR_CLASS_USAGE_LIMITED:
			l.Tone = "wait"
			if len(extra) == 0 {
				extra = append(extra, title)
			}
		case calferryv1.ErrorClass_ERROR_CLASS_EVENT_REFUSED:
		default:
			l.Tone = "bad"
			extra = append(extra, title)
			if r.GetError() != "" {
				extra = append(extra, r.GetError())
			}
		}
	}
	if n := c.GetDeferred(); n > 0 && c.GetRemaining() > 0 {
		extra = append(extra, plural(int(n), "write", "writes")+" deferred")
	}
	if n := len(r.GetQuarantined()); n > 0 {
		extra = append(extra, fmt.Sprintf("%s refused by Google", events(n)))
	}
	if took := tookText(r.GetTook()); took != "" {
		extra = append(extra, took)
	}
	if r.GetPace() > 0 {
		extra = append(extra, paceText(r.GetPace()))
	}
	l.Detail = strings.Join(extra, "; ")
	return l
}

// throttles says for whom Google asked to wait.
func throttles(t *calferryv1.Throttles) string {
	var parts []string
	for _, p := range []struct {
		n   uint32
		who string
	}{
		{t.GetCalendar(), "this calendar"},
		{t.GetUser(), "the account"},
		{t.GetProject(), "the whole project"},
		{t.GetUsage(), "new events of the account"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s for %s", plural(int(p.n), "time", "times"), p.who))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Google said “later” " + strings.Join(parts, ", ")
}

// tookText is how long a turn took; empty when that is not known.
func tookText(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("took %.1f s", d.AsDuration().Seconds())
}

func paceText(pace float64) string {
	if pace >= 1 {
		return fmt.Sprintf("%.1f writes/s", pace)
	}
	return fmt.Sprintf("%.1f writes/min", pace*60)
}
