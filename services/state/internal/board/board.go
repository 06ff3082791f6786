// Package board is a live view of all subscriptions, their health and progress, and all accounts: what the API lists, the
// console shows and the metrics count.
//
// It guarantees that every change is seen by every follower, though a follower that is slow may see several as one. It may
// lag a moment behind the buckets; what this process writes itself is put on the board at once by Put. What is gone stays
// gone, also when somebody who read it before puts it only afterwards.
package board

import (
	"log/slog"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/healthbook"
)

// Board is the view. It is safe for concurrent use.
type Board struct {
	registry *registry.Registry
	book     *healthbook.Book
	ledger   *ledger.Store
	log      *slog.Logger

	mu            sync.RWMutex
	subscriptions map[string]versioned[*calferryv1.Subscription]
	health        map[string]versioned[*calferryv1.Health]
	live          map[string]versioned[*Live]
	index         index
	copies        int // of the index, made for readers
	accounts      map[string]versioned[*calferryv1.Account]
	// passed are the newest revisions of subscriptions and accounts that the watches have seen. What is as old, and not on
	// the board, is gone or was written again since.
	passed    struct{ subscriptions, accounts uint64 }
	caughtUp  [watches]bool
	followers map[*Follower]struct{}
	ready     chan struct{}
	gone      func(subscription string)
}

type versioned[T any] struct {
	value    T
	revision uint64
}

// New makes an empty board, filled while Run runs. gone is called, from a goroutine of its own, with each subscription
// whose record goes away; it may be nil.
func New(reg *registry.Registry, book *healthbook.Book, store *ledger.Store, log *slog.Logger, gone func(subscription string)) *Board {
	return &Board{
		registry: reg, book: book, ledger: store, log: log, gone: gone,
		subscriptions: map[string]versioned[*calferryv1.Subscription]{},
		health:        map[string]versioned[*calferryv1.Health]{},
		live:          map[string]versioned[*Live]{},
		index:         index{rows: map[string]*Row{}},
		accounts:      map[string]versioned[*calferryv1.Account]{},
		followers:     map[*Follower]struct{}{},
		ready:         make(chan struct{}),
	}
}

// Put puts a subscription on the board, unless a newer one is there, or it is known to be gone.
func (b *Board) Put(rec *registry.Record[*calferryv1.Subscription]) {
	id := rec.Value.GetId()
	b.mu.Lock()
	if known, ok := b.subscriptions[id]; ok && known.revision >= rec.Revision || !ok && b.passed.subscriptions >= rec.Revision {
		b.mu.Unlock()
		return
	}
	b.subscriptions[id] = versioned[*calferryv1.Subscription]{rec.Value, rec.Revision}
	b.index.put(id, Row{Subscription: rec.Value, Health: b.health[id].value, Live: b.live[id].value}.place())
	b.mu.Unlock()
	b.tell(id)
}

// PutAccount puts an account on the board, unless a newer one is there, or it is known to be gone.
func (b *Board) PutAccount(rec *registry.Record[*calferryv1.Account]) {
	id := rec.Value.GetId()
	b.mu.Lock()
	if known, ok := b.accounts[id]; ok && known.revision >= rec.Revision || !ok && b.passed.accounts >= rec.Revision {
		b.mu.Unlock()
		return
	}
	b.accounts[id] = versioned[*calferryv1.Account]{rec.Value, rec.Revision}
	var users []string
	for _, s := range b.subscriptions {
		if s.value.GetTarget().GetAccount() == id {
			users = append(users, s.value.GetId())
		}
	}
	b.mu.Unlock()
	b.tell(users...)
}

// RemoveAccount takes an account off the board.
func (b *Board) RemoveAccount(id string) {
	b.mu.Lock()
	delete(b.accounts, id)
	b.mu.Unlock()
	b.tell()
}

// PutHealth puts a health on the board, unless a newer one is there; nil takes it off.
func (b *Board) PutHealth(id string, h *calferryv1.Health, revision uint64) {
	b.mu.Lock()
	if b.health[id].revision >= revision {
		b.mu.Unlock()
		return
	}
	if h == nil {
		delete(b.health, id)
	} else {
		b.health[id] = versioned[*calferryv1.Health]{h, revision}
	}
	b.index.change(id, func(row *Row) { row.Health = h })
	b.mu.Unlock()
	b.tell(id)
}

// PutHead takes in a head, unless a newer one is known. Followers hear of it only when what it counts is new: most writes of a head open intents.
func (b *Board) PutHead(u ledger.HeadUpdate) {
	id := u.Subscription
	b.mu.Lock()
	if b.live[id].revision >= u.Revision {
		b.mu.Unlock()
		return
	}
	old := b.live[id].value
	if u.Head == nil {
		delete(b.live, id)
		b.index.change(id, func(row *Row) { row.Live = nil })
		b.mu.Unlock()
		return
	}
	now := liveOf(u.Head)
	b.live[id] = versioned[*Live]{now, u.Revision}
	same := old != nil && old.Sync == now.Sync && old.Settled == now.Settled && proto.Equal(old.Counts, now.Counts)
	if !same {
		b.index.change(id, func(row *Row) { row.Live = now })
	}
	b.mu.Unlock()
	if !same {
		b.tell(id)
	}
}

func liveOf(h *ledger.Head) *Live {
	l := &Live{Sync: h.GetSync(), Settled: h.GetSettled(), Counts: &calferryv1.Counts{}}
	if p := h.GetProgress(); p.GetSync() == l.Sync && p.GetCounts() != nil {
		l.Counts = p.GetCounts()
	}
	return l
}

func (b *Board) remove(id string) {
	b.mu.Lock()
	_, known := b.subscriptions[id]
	delete(b.subscriptions, id)
	b.index.remove(id)
	b.mu.Unlock()
	if !known {
		return
	}
	b.tell(id)
	if b.gone != nil {
		go b.gone(id)
	}
}

// removeAllBut takes away what a watch that was opened again no longer lists.
func (b *Board) removeAllBut(seen map[string]bool) {
	var missing []string
	b.mu.RLock()
	for id := range b.subscriptions {
		if !seen[id] {
			missing = append(missing, id)
		}
	}
	b.mu.RUnlock()
	for _, id := range missing {
		b.remove(id)
	}
}

func (b *Board) arrived(watch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.caughtUp[watch] {
		return
	}
	b.caughtUp[watch] = true
	if !slices.Contains(b.caughtUp[:], false) {
		close(b.ready)
	}
}

// Ready is closed once everything that was stored at the start is on the board.
func (b *Board) Ready() <-chan struct{} { return b.ready }

// Row returns one subscription, and whether it is known.
func (b *Board) Row(id string) (Row, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	row := b.index.rows[id]
	if row == nil {
		return Row{}, false
	}
	return *row, true
}

// Account returns one account, nil when it is unknown.
func (b *Board) Account(id string) *calferryv1.Account {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.accounts[id].value
}

// Accounts returns all accounts, by address.
func (b *Board) Accounts() []*calferryv1.Account {
	b.mu.RLock()
	accounts := make([]*calferryv1.Account, 0, len(b.accounts))
	for _, a := range b.accounts {
		accounts = append(accounts, a.value)
	}
	b.mu.RUnlock()
	slices.SortFunc(accounts, func(a, b *calferryv1.Account) int {
		return compare(a.GetEmail(), b.GetEmail(), a.GetId(), b.GetId())
	})
	return accounts
}

func compare(a, b, idA, idB string) int {
	if c := strings.Compare(strings.ToLower(a), strings.ToLower(b)); c != 0 {
		return c
	}
	return strings.Compare(idA, idB)
}
