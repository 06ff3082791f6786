package writer

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/calferry/calferry/pkg/workqueue"
)

// waitsKey is a sorted set in Redis: keys of the CHANGES queue whose turn ended with a delay, by the moment in Unix
// milliseconds at which the delay ends. It is shared by all writers, and only the number of writers hangs on it.
const waitsKey = "calferry:waits"

const (
	// tellEvery is how often Redis is told what was noted. Below lanesGrace, so that a calendar whose delays follow upon
	// each other counts as delayed throughout.
	tellEvery = time.Second
	// tellPatience bounds one telling.
	tellPatience = time.Second
)

// waits remembers in Redis which keys wait for a delay. A turn's end is noted at once and told with those of the next
// second, so that Redis is not called for each. It is safe for concurrent use.
//
// What Redis is not told only makes the count of ready calendars too high for as long as the delays last.
type waits struct {
	redis redis.UniversalClient
	log   *slog.Logger
	mu    sync.Mutex
	noted map[string]time.Time // ends of delays; zero for a key that does not wait
}

func newWaits(client redis.UniversalClient, log *slog.Logger) *waits {
	return &waits{redis: client, log: log, noted: map[string]time.Time{}}
}

// note remembers how the turn of a key ended.
func (w *waits) note(key string, res workqueue.Result) {
	var due time.Time
	if res.Verb() == workqueue.VerbAgain && res.Delay() > 0 {
		due = time.Now().Add(res.Delay())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noted[key] = due
}

// run tells Redis what is noted until ctx ends, and what is left then.
func (w *waits) run(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.tell(ctx)
		case <-ctx.Done():
			w.tell(ctx)
			return
		}
	}
}

// tell brings what was noted to Redis, with two commands at most.
func (w *waits) tell(ctx context.Context) {
	w.mu.Lock()
	noted := w.noted
	w.noted = map[string]time.Time{}
	w.mu.Unlock()
	var begin []redis.Z
	var end []any
	now := time.Now()
	for key, due := range noted {
		switch {
		case due.IsZero():
			end = append(end, key)
		case due.After(now): // else somebody may have taken it up already, and knows more
			begin = append(begin, redis.Z{Score: float64(due.UnixMilli()), Member: key})
		}
	}
	if len(begin) == 0 && len(end) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellPatience)
	defer cancel()
	if _, err := w.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		if len(begin) > 0 {
			pipe.ZAdd(ctx, waitsKey, begin...)
		}
		if len(end) > 0 {
			pipe.ZRem(ctx, waitsKey, end...)
		}
		return nil
	}); err != nil {
		w.log.DebugContext(ctx, "Redis was not told which calendars wait", slog.Any("error", err))
	}
}

// keys returns those whose delay ends after since, and forgets the others.
func (w *waits) keys(ctx context.Context, since time.Time) (map[string]bool, error) {
	w.tell(ctx)
	if err := w.redis.ZRemRangeByScore(ctx, waitsKey, "-inf", "("+strconv.FormatInt(since.UnixMilli(), 10)).Err(); err != nil {
		return nil, err
	}
	list, err := w.redis.ZRange(ctx, waitsKey, 0, -1).Result()
	if err != nil {
		return nil, err
	}
	keys := make(map[string]bool, len(list))
	for _, k := range list {
		keys[k] = true
	}
	return keys, nil
}
