package turn

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/calferry/calferry/pkg/ledger"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// How long a message waits, before jitter.
const (
	busyFirst  = 250 * time.Millisecond // doubling with every delivery
	afterNewer = time.Minute            // an upgrade is under way
	afterRedis = 5 * time.Second        // nothing is written without the pacer
	afterStore = 5 * time.Second        // nothing is written without the ledger
	afterLost  = time.Second            // whoever took the lane knows more
	afterDay   = 30 * time.Second       // a new Pacific day has begun
	afterFault = 10 * time.Second       // first delay after a fault of Google, doubling with every delivery
	faultLimit = 5 * time.Minute        // last delay of those
	afterUser  = 5 * time.Minute        // somebody has to reconnect, or to give the calendar back
)

type verb int

const (
	done verb = iota + 1
	again
	requeue
)

// ending is why and how a turn ends.
type ending struct {
	verb  verb
	delay time.Duration
	// class and err of an error that the turn ends on; THROTTLED when it merely waits.
	class calferryv1.ErrorClass
	err   error
	// moved: the head belongs to another sync.
	moved bool
	// late: outcomes may not be saved, they are noted as intents.
	late bool
	// busy: another turn has the lane.
	busy bool
	// wake: the subscription's fetch is to run now.
	wake bool
	// deferred: Google or the pace said "later".
	deferred bool
}

func (e ending) set() bool { return e.verb != 0 }

// end makes the turn start no more requests. The first reason counts, unless a later one says that nothing may be
// saved.
func (t *turn) end(e ending) {
	before := t.final
	if before.set() && (!e.late || before.late) && (!e.moved || before.moved) {
		return
	}
	e.late, e.moved = e.late || before.late, e.moved || before.moved
	if e.moved {
		e.verb = done
	}
	t.final = e
}

// onStoreFailure: a store does not answer, or has a newer format. What is in memory is lost with this turn; its
// intents stay open, so it is done again.
func (t *turn) onStoreFailure(err error) {
	t.drain()
	delay := jitter(afterStore)
	if errors.Is(err, ledger.ErrNewer) {
		delay = afterNewer
	}
	t.log.WarnContext(t.ctx, "turn ends without saving; its writes are looked up by the next one", slog.Any("error", err))
	t.final = ending{verb: again, delay: delay, class: calferryv1.ErrorClass_ERROR_CLASS_INTERNAL, err: err}
}

// jitter returns d to 1.5 d, so that what failed together does not come back together.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + rand.N(d/2+1)
}

// backoff is how long a message waits after a fault, by its deliveries.
func backoff(tries uint64) time.Duration {
	shift := min(max(tries, 1)-1, 5)
	return jitter(min(afterFault<<shift, faultLimit))
}
