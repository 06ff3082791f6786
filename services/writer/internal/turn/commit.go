package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/calferry/calferry/pkg/ledger"

	"github.com/calferry/calferry/services/writer/internal/job"
)

// lateToken marks intents that note an outcome which could not be saved. No turn clears them without having opened
// them anew.
const lateToken = "late"

// Stores are asked again a few times: without an answer the work of up to a second is repeated.
const (
	storePause   = 100 * time.Millisecond
	storeRetries = 4
)

// retry calls a store until it answers. A conflict and a newer format are answers.
func (t *turn) retry(f func(context.Context) error) error {
	b := retry.WithMaxRetries(storeRetries, retry.WithJitterPercent(50, retry.NewExponential(storePause)))
	return retry.Do(t.ctx, b, func(ctx context.Context) error {
		err := f(ctx)
		if err == nil || errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrNewer) {
			return err
		}
		return retry.RetryableError(err)
	})
}

// commit stores what is decided and opens the intents of next, which may be empty: pages first, then one
// compare-and-swap of the head that clears the intents of what the pages now show.
func (t *turn) commit(next []*work) error {
	if err := t.storePages(); err != nil || t.final.late || t.final.moved {
		return err
	}
	err := t.swap(func(h *ledger.Head) {
		t.clear(h)
		for _, w := range next {
			w.prior = h.Intent(w.Change.GetKey())
			w.Inherit(w.prior)
			if w.prior != nil {
				w.prior = cloneIntent(w.prior)
			}
			h.OpenIntent(w.Change.GetKey(), w.Change.GetOp(), t.token, t.w.cfg.Now())
		}
		t.tally.write(h, t)
	})
	if err != nil || t.final.moved {
		return err
	}
	t.markCleared()
	for _, w := range next {
		w.opened = true
	}
	t.tally.stored()
	return t.step(StepIntents, "")
}

// storePages saves the outcomes that are not saved yet, if the ledger is still ours to write.
func (t *turn) storePages() error {
	if len(t.unsaved) == 0 && !t.pages.Dirty() {
		return nil
	}
	if err := t.check(); err != nil || t.final.late {
		return err
	}
	for _, w := range t.unsaved {
		t.record(w)
	}
	err := t.retry(func(ctx context.Context) error { return t.w.deps.Ledger.SavePages(ctx, t.pages) })
	if errors.Is(err, ledger.ErrConflict) {
		t.end(ending{verb: again, delay: jitter(afterLost), late: true})
		return nil
	}
	if err != nil {
		return err
	}
	for _, w := range t.unsaved {
		w.saved = true
		t.tally.count(w)
	}
	t.unsaved = nil
	return t.step(StepSave, "")
}

// check reads the head before pages are saved: it must belong to our sync, and every key that we opened must still
// carry our token.
func (t *turn) check() error {
	var head *ledger.Head
	if err := t.retry(func(ctx context.Context) (err error) {
		head, err = t.w.deps.Ledger.Head(ctx, t.cs.GetSubscription())
		return err
	}); err != nil {
		return err
	}
	switch {
	case !head.Exists() || head.GetSync() != t.cs.GetSync():
		t.end(ending{verb: done, late: true, moved: true})
	case t.leaseLost():
		t.end(ending{verb: again, delay: jitter(afterLost), late: true})
	default:
		open := head.OpenIntents()
		for _, w := range t.works {
			if w.opened && !w.closed && open[w.Change.GetKey()].GetToken() != t.token {
				t.end(ending{verb: again, delay: jitter(afterLost), late: true})
				break
			}
		}
	}
	t.head = head
	return t.step(StepCheck, "")
}

// swap changes the head while it belongs to our sync. A refused swap is tried again on what is stored now.
func (t *turn) swap(change func(*ledger.Head)) error {
	for {
		next := t.head.Clone()
		change(next)
		err := t.retry(func(ctx context.Context) error {
			return t.w.deps.Ledger.SwapHead(ctx, t.cs.GetSubscription(), next)
		})
		if err == nil {
			t.head = next
			return nil
		}
		if !errors.Is(err, ledger.ErrConflict) {
			return err
		}
		if err := t.retry(func(ctx context.Context) (err error) {
			t.head, err = t.w.deps.Ledger.Head(ctx, t.cs.GetSubscription())
			return err
		}); err != nil {
			return err
		}
		if !t.head.Exists() || t.head.GetSync() != t.cs.GetSync() {
			t.end(ending{verb: done, moved: true}) // the intents stay for the newer sync
			return nil
		}
	}
}

// clear closes the intents whose outcomes are in the pages.
func (t *turn) clear(h *ledger.Head) {
	for _, w := range t.works {
		if w.opened && w.saved && !w.closed {
			h.ClearIntent(w.Change.GetKey(), t.token)
		}
	}
}

func (t *turn) markCleared() {
	for _, w := range t.works {
		w.closed = w.closed || w.saved
	}
}

// restore leaves of the intents that stay open what is true of them: a key for which this turn sent nothing of
// unknown outcome is as old, and as open, as the turn found it. Otherwise it could never age.
func (t *turn) restore(h *ledger.Head) {
	for _, w := range t.works {
		key := w.Change.GetKey()
		in := h.Intent(key)
		if !w.opened || w.saved || in.GetToken() != t.token {
			continue
		}
		left := w.Inherited()
		if !left.Upsert && !left.Delete {
			h.ClearIntent(key, t.token)
			continue
		}
		in.Upsert, in.Delete, in.At = left.Upsert, left.Delete, timestamp(left.At)
	}
}

// noteLate keeps what this turn did to Google, but may not save, from being forgotten: those keys are unknown, so
// the next fetch writes them again.
func (t *turn) noteLate() error {
	var keys []*work
	for _, w := range t.works {
		if out := w.Outcome(); out != nil && out.Verb.Writes() && out.Kind != job.Quarantined && !w.saved {
			keys = append(keys, w)
		}
	}
	for len(keys) > 0 {
		var head *ledger.Head
		if err := t.retry(func(ctx context.Context) (err error) {
			head, err = t.w.deps.Ledger.Head(ctx, t.cs.GetSubscription())
			return err
		}); err != nil {
			return fmt.Errorf("note late outcomes: %w", err)
		}
		if !head.Exists() {
			break
		}
		changed := false
		for _, w := range keys {
			key, op := w.Change.GetKey(), w.Change.GetOp()
			in := head.Intent(key)
			if in.GetToken() == lateToken && (in.GetUpsert() && isUpsert(op) || in.GetDelete() && !isUpsert(op)) {
				continue
			}
			head.OpenIntent(key, op, lateToken, t.w.cfg.Now())
			changed = true
		}
		if !changed {
			break
		}
		err := t.retry(func(ctx context.Context) error {
			return t.w.deps.Ledger.SwapHead(ctx, t.cs.GetSubscription(), head)
		})
		if err == nil {
			break
		}
		if !errors.Is(err, ledger.ErrConflict) {
			return fmt.Errorf("note late outcomes: %w", err)
		}
	}
	t.log.InfoContext(t.ctx, "turn ends late: its last outcomes are for the next fetch to look up", slog.Int("keys", len(keys)))
	return t.step(StepLate, "")
}
