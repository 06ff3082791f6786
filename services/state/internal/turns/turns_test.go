package turns_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/services/state/internal/turns"
)

// recorder is a queue that remembers when it was asked for what.
type recorder struct {
	mu   sync.Mutex
	keys []string
	last time.Time
	fail map[string]bool
}

func (r *recorder) Put(_ context.Context, key string, _ []byte) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	if r.fail[key] {
		return 0, errors.New("no")
	}
	r.keys = append(r.keys, key)
	return 1, nil
}

func (r *recorder) PutIfAbsent(_ context.Context, key string, _ []byte) (bool, error) {
	_, err := r.Put(context.Background(), key, nil)
	return err == nil, err
}

// put returns the keys that were put, and when the last was.
func (r *recorder) put() ([]string, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.keys), r.last
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
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock jumps
		keys, last := queue.put()
		require.Len(t, keys, 199, "each once; one that fails does not hold up the others")
		took := last.Sub(begin)
		require.InDelta(t, 4*time.Second, took, float64(100*time.Millisecond), "200 at 50 a second")
		keeper.Soon("one more")
		synctest.Wait()
		keys, _ = queue.put()
		require.Equal(t, "one more", keys[199], "a single one does not wait")
		cancel()
		<-done
	})
}
