package board

import "sync"

// Follower learns which subscriptions changed. It is safe for concurrent use.
type Follower struct {
	board *Board

	mu    sync.Mutex
	ids   map[string]bool
	dirty chan struct{}
}

// Follow starts to collect changes; Close ends it.
func (b *Board) Follow() *Follower {
	f := &Follower{board: b, ids: map[string]bool{}, dirty: make(chan struct{}, 1)}
	b.mu.Lock()
	b.followers[f] = struct{}{}
	b.mu.Unlock()
	return f
}

// Close ends the follower.
func (f *Follower) Close() {
	f.board.mu.Lock()
	delete(f.board.followers, f)
	f.board.mu.Unlock()
}

// Changed has a value whenever Take would return something new.
func (f *Follower) Changed() <-chan struct{} { return f.dirty }

// Take returns the subscriptions that changed since the last Take. It may be none, when only accounts changed.
func (f *Follower) Take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]string, 0, len(f.ids))
	for id := range f.ids {
		ids = append(ids, id)
	}
	clear(f.ids)
	return ids
}

func (b *Board) tell(ids ...string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for f := range b.followers {
		f.mu.Lock()
		for _, id := range ids {
			f.ids[id] = true
		}
		f.mu.Unlock()
		select {
		case f.dirty <- struct{}{}:
		default:
		}
	}
}
