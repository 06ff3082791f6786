package turns_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/services/state/internal/turns"
)

// recorder is a queue that remembers when it was asked for what.
type recorder struct {
	mu     sync.Mutex
	put    []string
	absent []string
	last   time.Time
	fail   map[string]bool
}

func (r *recorder) Put(_ context.Context, key string, _ []byte) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	if r.fail[key] {
		return 0, errors.New("no")
	}
	r.put = append(r.put, key)
	return 1, nil
}

func (r *recorder) PutIfAbsent(_ context.Context, key string, _ []byte) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.absent = append(r.absent, key)
	return true, nil
}

func TestManyTurnsStartSpreadOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := &recorder{fail: map[string]bool{"sub-7": true}}
		keeper := turns.New(queue, nil, nil, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			keeper.Start(ctx)
		}()
		begin := time.Now()
		var ids []string
		for i := range 200 {
			ids = append(ids, fmt.Sprint("sub-", i))
		}
		keeper.Soon(ids...)
		keeper.Soon(ids[100:]...)
		time.Sleep(time.Minute)
		require.Len(t, queue.put, 199, "each once; one that fails does not hold up the others")
		took := queue.last.Sub(begin)
		require.InDelta(t, 4*time.Second, took, float64(100*time.Millisecond), "200 at 50 a second")
		keeper.Soon("one more")
		synctest.Wait()
		require.Equal(t, "one more", queue.put[199], "a single one does not wait")
		cancel()
		<-done
	})
}
