package console

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/board"
	"github.com/calferry/calferry/services/state/internal/health"
)

// stateOf reads the state off a row: what the owner wants comes before how it goes.
func stateOf(row board.Row, now time.Time) State {
	switch row.Subscription.GetState() {
	case calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED:
		return Paused
	case calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_KEEP, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_PURGE:
		return Removing
	}
	h := row.Health
	sync, settled := syncs(row)
	switch {
	case h.GetStatus() == calferryv1.Status_STATUS_ERROR:
		return Failing
	case sync == 0 && h.GetLastTurn() == nil:
		return Starting
	case row.Counts().GetRemaining() > 0 && resumes(row, now) != nil:
		return Waiting
	case row.Counts().GetRemaining() > 0:
		return Writing
	case h.GetHeld() > 0:
		return Deciding
	case settled < sync:
		return Writing
	default:
		return InStep
	}
}

// syncs are the numbers of the newest sync and of the newest settled one.
func syncs(row board.Row) (sync, settled uint64) {
	sync, settled = row.Health.GetSync(), row.Health.GetSettled()
	if row.Live != nil {
		sync, settled = max(sync, row.Live.Sync), max(settled, row.Live.Settled)
	}
	return sync, settled
}

// resumes is when a sync that waits goes on; nil when it does so now, or when a turn has gone on since that was said.
func resumes(row board.Row, now time.Time) *timestamppb.Timestamp {
	at := row.Health.GetResumesAt()
	sync, _ := syncs(row)
	if at == nil || !at.AsTime().After(now) || sync != row.Health.GetSync() {
		return nil
	}
	return at
}

// Progress is how far the newest sync is. Its numbers are those of the writer's own books.
type Progress struct {
	Written, Waiting, Total uint32
	// Resumes is when the waiting writes go on; nil when they go on now.
	Resumes *timestamppb.Timestamp
	// Ends is when they will all be written at the present pace; nil when nobody can say.
	Ends *timestamppb.Timestamp
	// Rest is what else is to be said, as ", 2 refused by Google".
	Rest string
	// Lead is what comes first, as "128 written, 14 waiting".
	Lead string
}

// progressOf says how far the newest sync is.
func progressOf(row board.Row, state State, now time.Time) Progress {
	c, h := row.Counts(), row.Health
	sync, settled := syncs(row)
	p := Progress{Written: health.Written(c), Waiting: c.GetRemaining()}
	p.Total = p.Written + p.Waiting
	switch {
	case state == Starting:
		p.Lead = "Waiting for the first fetch"
		if h.GetConsecutiveFeedErrors() > 0 {
			p.Lead = "Not read yet"
		}
	case p.Waiting > 0:
		p.Lead = fmt.Sprintf("%s written, %s waiting", number(p.Written), number(p.Waiting))
		if state != Paused && state != Removing && state != Failing {
			p.Resumes = resumes(row, now)
			p.Ends = ends(row, now)
		}
	case p.Written > 0:
		p.Lead = number(p.Written) + " written in the newest sync"
	case sync > 0 && settled == sync:
		p.Lead = "Nothing to write"
	case sync > 0:
		p.Lead = "Nothing waits to be written"
	default:
		p.Lead = "Nothing known yet"
	}
	var rest []string
	if n := len(h.GetQuarantined()); n > 0 {
		rest = append(rest, fmt.Sprintf("%s refused by Google", events(n)))
	}
	if n := h.GetHeld(); n > 0 {
		rest = append(rest, plural(int(n), "deletion", "deletions")+" held")
	}
	if n := c.GetUserDeleted(); n > 0 {
		rest = append(rest, fmt.Sprintf("%s left deleted as you did", events(int(n))))
	}
	p.Rest = strings.Join(rest, ", ")
	return p
}

// ends is when the newest sync will be written, by what the writer said last and what was done since. It moves with
// the progress: a sync that is faster or slower than was thought corrects it every second.
func ends(row board.Row, now time.Time) *timestamppb.Timestamp {
	left := row.Counts().GetRemaining()
	turn := row.Health.GetLastTurn()
	sync, _ := syncs(row)
	if said := turn.GetTimeLeft(); said != nil && turn.GetSync() == sync && turn.GetCounts().GetRemaining() > 0 {
		at := turn.GetAt().AsTime().Add(said.AsDuration())
		share := min(1, float64(left)/float64(turn.GetCounts().GetRemaining()))
		if byWork := now.Add(time.Duration(share * float64(said.AsDuration()))); byWork.Before(at) {
			at = byWork
		}
		if at.Before(now) {
			at = now
		}
		return timestamppb.New(at)
	}
	pace := row.Health.GetPace()
	if pace <= 0 {
		return nil
	}
	from := now
	if at := resumes(row, now); at != nil {
		from = at.AsTime()
	}
	return timestamppb.New(from.Add(time.Duration(float64(left) / pace * float64(time.Second))))
}
