package writer

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/workqueue"
)

// commands is a hook that keeps the names of what is sent in pipelines.
type commands []string

func (c *commands) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			*c = append(*c, cmd.Name())
		}
		return next(ctx, cmds)
	}
}

func TestWaitsAreToldTogether(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: store.Addr(), MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	var sent commands
	client.AddHook(&sent)
	w := newWaits(client, slog.New(slog.DiscardHandler))
	members := func() []string {
		if !store.Exists(waitsKey) {
			return nil
		}
		keys, err := store.ZMembers(waitsKey)
		require.NoError(t, err)
		return keys
	}

	for i := range 1000 {
		w.note(fmt.Sprint("a", i), workqueue.Again(time.Hour))
		w.note(fmt.Sprint("b", i), workqueue.Done())
	}
	require.Empty(t, sent, "a turn does not wait for Redis")
	w.tell(t.Context())
	require.Len(t, members(), 1000)
	require.Equal(t, []string{"zadd", "zrem"}, []string(sent))
	w.tell(t.Context())
	require.Len(t, sent, 2, "nothing to tell")

	for i := range 999 {
		w.note(fmt.Sprint("a", i), workqueue.Requeue(nil))
	}
	w.note("short", workqueue.Again(time.Nanosecond))
	w.note("last", workqueue.Again(time.Hour))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	w.run(stopped)
	require.Equal(t, []string{"a999", "last"}, members(), "told at the end; a delay that is over already is not")

	w.note("lost", workqueue.Again(time.Hour))
	store.SetError("LOADING") // a stopped one might not get its port back
	w.tell(t.Context())
	store.SetError("")
	w.tell(t.Context())
	require.NotContains(t, members(), "lost", "a telling that failed is not made up for: it may be old by then")
}
