package testbed

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Reports collects what fetchers and writers report, in the order of its arrival.
type Reports struct {
	tb      testing.TB
	mu      sync.Mutex
	list    []*calferryv1.Report
	changed chan struct{}
}

func newReports(tb testing.TB, nc *nats.Conn) *Reports {
	r := &Reports{tb: tb, changed: make(chan struct{})}
	_, err := nc.Subscribe(streams.ReportSubject("*"), func(msg *nats.Msg) {
		rep, err := streams.ParseReport(msg.Data)
		if err != nil {
			return // another version's
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, rep)
		close(r.changed)
		r.changed = make(chan struct{})
	})
	require.NoError(tb, err)
	require.NoError(tb, nc.Flush())
	return r
}

func (r *Reports) all() ([]*calferryv1.Report, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.list), r.changed
}

// Count is how many reports there are; a place to look from.
func (r *Reports) Count() int {
	list, _ := r.all()
	return len(list)
}

// Turns are the reports of writers from a place on.
func (r *Reports) Turns(from int) []*calferryv1.TurnReport {
	list, _ := r.all()
	var turns []*calferryv1.TurnReport
	for _, rep := range list[from:] {
		if rep.GetTurn() != nil {
			turns = append(turns, rep.GetTurn())
		}
	}
	return turns
}

// Turn waits for a writer's report, from a place on.
func (r *Reports) Turn(from int, what string, ok func(*calferryv1.TurnReport) bool) *calferryv1.TurnReport {
	r.tb.Helper()
	return r.await(from, what, func(rep *calferryv1.Report) bool { return rep.GetTurn() != nil && ok(rep.GetTurn()) }).GetTurn()
}

// Sync waits for a fetcher's report about the subscription, from a place on.
func (r *Reports) Sync(from int, what string, sub Subscription, ok func(*calferryv1.SyncReport) bool) *calferryv1.SyncReport {
	r.tb.Helper()
	return r.await(from, what, func(rep *calferryv1.Report) bool {
		return rep.GetSync().GetSubscription() == sub.ID && ok(rep.GetSync())
	}).GetSync()
}

func (r *Reports) await(from int, what string, ok func(*calferryv1.Report) bool) *calferryv1.Report {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(r.tb.Context(), Patience)
	defer cancel()
	for {
		list, changed := r.all()
		for ; from < len(list); from++ {
			if ok(list[from]) {
				return list[from]
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.FailNow(r.tb, "waited in vain", "for the report of %s; there are %v", what, list)
		}
	}
}
