package lifecycle_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/lifecycle"
)

func TestPartsStopInReverseOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var stopped []string
	g := lifecycle.NewGroup(nil)
	up := make(chan string, 3)
	for _, name := range []string{"nats", "state", "writer"} {
		g.Add(name, func(ctx context.Context) error {
			up <- name
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			stopped = append(stopped, name)
			return nil
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 3 {
			<-up
		}
		cancel()
	}()
	require.NoError(t, g.Run(ctx))
	require.Equal(t, []string{"writer", "state", "nats"}, stopped)
}

func TestAFailureStopsAllAndIsNamed(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	g := lifecycle.NewGroup(nil)
	g.Add("nats", func(ctx context.Context) error { <-ctx.Done(); return nil })
	g.Add("writer", func(context.Context) error { return boom })
	err := g.Run(t.Context())
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, "writer")
}

func TestAnEarlyEndIsAFailure(t *testing.T) {
	t.Parallel()
	g := lifecycle.NewGroup(nil)
	g.Add("writer", func(context.Context) error { return nil })
	require.ErrorContains(t, g.Run(t.Context()), "ended by itself")
}
