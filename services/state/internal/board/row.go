package board

import (
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/health"
)

// Row is one subscription and what is known of how it goes. None of it may be changed.
type Row struct {
	Subscription *calferryv1.Subscription
	// Health is nil until a report has named the subscription.
	Health *calferryv1.Health
	// Live is the progress that the ledger's head shows; nil until there is a head.
	Live *Live

	position, words string
}

// Live is how far the newest sync is by the writer's own books, which it writes every second or so of a turn. Reports
// come only at its end.
type Live struct {
	Sync, Settled uint64
	// Counts of that sync. It is not nil.
	Counts *calferryv1.Counts
}

// Counts of the newest sync: those of the ledger's head while they are ahead of the reported ones, else the reported ones.
// It is nil when nothing is known.
func (r Row) Counts() *calferryv1.Counts {
	reported := r.Health.GetCounts()
	switch {
	case r.Live == nil || r.Live.Sync < r.Health.GetSync():
		return reported
	case r.Live.Sync > r.Health.GetSync() || reported == nil:
		return r.Live.Counts
	// Within a sync, what is done only grows.
	case health.Written(r.Live.Counts) > health.Written(reported) || r.Live.Counts.GetSkipped() > reported.GetSkipped():
		return r.Live.Counts
	default:
		return reported
	}
}

// Position is where the row stands among all: rows are ordered by it, byte by byte.
func (r Row) Position() string { return r.position }

// Matches tells whether the name, the feed's label or the calendar holds the words, which are in lower case.
func (r Row) Matches(words string) bool { return strings.Contains(r.words, words) }

// place readies a row for being ordered and searched.
func (r Row) place() Row {
	s := r.Subscription
	name := strings.ToLower(s.GetName())
	r.position = name + "\x00" + s.GetId()
	r.words = name + "\n" + strings.ToLower(s.GetFeedLabel()+"\n"+s.GetTarget().GetCalendarId())
	return r
}
