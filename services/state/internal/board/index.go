package board

import (
	"iter"
	"slices"
	"strings"
)

// index holds the rows of all known subscriptions in their order. Its methods need the board's lock.
type index struct {
	rows map[string]*Row
	// order is sorted by position, and kept so.
	order []*Row
	// shown is a copy of order's rows that readers share; nil once something has changed since it was made.
	shown []Row
}

// put adds or replaces a row.
func (x *index) put(id string, row Row) {
	x.shown = nil
	old := x.rows[id]
	if old != nil && old.position == row.position {
		*old = row
		return
	}
	x.remove(id)
	x.rows[id] = &row
	at, _ := x.find(row.position)
	x.order = slices.Insert(x.order, at, &row)
}

// change changes what a row says of its subscription, if that is known.
func (x *index) change(id string, how func(*Row)) {
	if row := x.rows[id]; row != nil {
		x.shown = nil
		how(row)
	}
}

func (x *index) remove(id string) {
	row := x.rows[id]
	if row == nil {
		return
	}
	x.shown = nil
	delete(x.rows, id)
	if at, found := x.find(row.position); found {
		x.order = slices.Delete(x.order, at, at+1)
	}
}

func (x *index) find(position string) (int, bool) {
	return slices.BinarySearchFunc(x.order, position, func(r *Row, p string) int { return strings.Compare(r.position, p) })
}

// Rows returns all subscriptions, in the order of their positions. The slice is the caller's own.
func (b *Board) Rows() []Row { return slices.Clone(b.shared()) }

// All yields what Rows returns without making a slice of it: while nothing changes, walking again copies nothing.
func (b *Board) All() iter.Seq[Row] { return slices.Values(b.shared()) }

func (b *Board) shared() []Row {
	b.mu.RLock()
	shown := b.index.shown
	b.mu.RUnlock()
	if shown != nil {
		return shown
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.index.shown == nil {
		b.index.shown = make([]Row, len(b.index.order))
		for i, row := range b.index.order {
			b.index.shown[i] = *row
		}
		b.copies++
	}
	return b.index.shown
}

// After returns the part of rows behind a position, all of them when it is empty.
func After(rows []Row, position string) []Row {
	at, found := slices.BinarySearchFunc(rows, position, func(r Row, p string) int { return strings.Compare(r.position, p) })
	if found {
		at++
	}
	return rows[at:]
}
