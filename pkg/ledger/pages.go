package ledger

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"

	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Bounds of a page. A full page of 2,000 entries with long UIDs stays below NATS' default message limit of
// 1 MiB; a set is made for 1,000 entries a page and re-made above 1,500, which leaves the uneven spread of a
// hash far from the bound.
const (
	maxMean    = 1500
	targetMean = 1000
)

// Pages are a subscription's entries as they were read with one head. They are not safe for concurrent use.
type Pages struct {
	sub, set string
	parts    []*part
}

type part struct {
	revision uint64
	page     *calferryv1.Page // carries fields that this version does not know
	entries  map[string]*calferryv1.Entry
	dirty    bool
}

// Pages reads all entries that the head names. It returns ErrNewer for a later format.
func (s *Store) Pages(ctx context.Context, sub string, h *Head) (*Pages, error) {
	p := emptyPages(sub, h.GetPageSet(), int(h.GetPages()))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for n, part := range p.parts {
		g.Go(func() error {
			rev, err := s.read(ctx, pageKey(sub, p.set, n), part.page)
			if err != nil {
				return fmt.Errorf("read page %d of subscription %s: %w", n, sub, err)
			}
			if part.page.GetVersion() > Version {
				return fmt.Errorf("read page %d of subscription %s: %w", n, sub, ErrNewer)
			}
			part.revision = rev
			part.entries = make(map[string]*calferryv1.Entry, len(part.page.GetEntries()))
			for _, e := range part.page.GetEntries() {
				part.entries[e.GetKey()] = e
			}
			part.page.Entries = nil
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return p, nil
}

func emptyPages(sub, set string, n int) *Pages {
	p := &Pages{sub: sub, set: set, parts: make([]*part, n)}
	for i := range p.parts {
		p.parts[i] = &part{page: &calferryv1.Page{}, entries: map[string]*calferryv1.Entry{}}
	}
	return p
}

// Get returns the entry of key, nil when there is none. Change it only through Put.
func (p *Pages) Get(key string) *calferryv1.Entry {
	if len(p.parts) == 0 {
		return nil
	}
	return p.part(key).entries[key]
}

// All yields every entry, in no order.
func (p *Pages) All() iter.Seq[*calferryv1.Entry] {
	return func(yield func(*calferryv1.Entry) bool) {
		for _, part := range p.parts {
			for _, e := range part.entries {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// ByKey returns all entries by key, in a map of the caller's.
func (p *Pages) ByKey() map[string]*calferryv1.Entry {
	m := make(map[string]*calferryv1.Entry, p.Len())
	for _, part := range p.parts {
		maps.Copy(m, part.entries)
	}
	return m
}

// Len counts the entries.
func (p *Pages) Len() int {
	n := 0
	for _, part := range p.parts {
		n += len(part.entries)
	}
	return n
}

// Put adds or replaces an entry, to be stored by SavePages.
func (p *Pages) Put(e *calferryv1.Entry) {
	part := p.part(e.GetKey())
	part.entries[e.GetKey()] = e
	part.dirty = true
}

// Remove takes an entry out, to be stored by SavePages.
func (p *Pages) Remove(key string) {
	if p.Get(key) == nil {
		return
	}
	part := p.part(key)
	delete(part.entries, key)
	part.dirty = true
}

// Dirty tells whether SavePages has anything to store.
func (p *Pages) Dirty() bool {
	return slices.ContainsFunc(p.parts, func(part *part) bool { return part.dirty })
}

func (p *Pages) part(key string) *part {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return p.parts[h.Sum64()%uint64(len(p.parts))]
}

// SavePages stores the pages that were changed, each by CAS on the revision that was read. It returns
// ErrConflict at the first page that somebody else wrote, and stores none after it.
func (s *Store) SavePages(ctx context.Context, p *Pages) error {
	for n, part := range p.parts {
		if !part.dirty {
			continue
		}
		rev, err := s.swap(ctx, pageKey(p.sub, p.set, n), part.encode(), part.revision)
		if err != nil {
			return fmt.Errorf("write page %d of subscription %s: %w", n, p.sub, err)
		}
		part.revision, part.dirty = rev, false
	}
	return nil
}

func (part *part) encode() *calferryv1.Page {
	page := proto.CloneOf(part.page)
	page.Version = Version
	page.Entries = make([]*calferryv1.Entry, 0, len(part.entries))
	for _, key := range slices.Sorted(maps.Keys(part.entries)) {
		page.Entries = append(page.Entries, part.entries[key])
	}
	return page
}

// Repartition makes room for expected entries: when the head has no page set, or one that would grow past
// its bound, it copies all entries into a new set as NewPages does.
//
// Only the fetcher calls it, in the step that raises the head's sync number: a writer of the older sync that
// still saves into the old set finds its clear refused and its sync gone, so its intents stay open.
func (s *Store) Repartition(ctx context.Context, h *Head, p *Pages, expected int) error {
	if n := len(p.parts); n > 0 && expected <= n*maxMean {
		return nil
	}
	next, err := s.NewPages(ctx, p.sub, h, p.All(), expected)
	if err != nil {
		return err
	}
	*p = *next
	return nil
}

// NewPages stores entries as a new page set with room for expected ones, and names that set in h, which the caller
// then stores. So all of them change in one step, whatever pages they are in: until that CAS the old set stays valid;
// afterwards the set that lost is the caller's to remove by RemovePages.
//
// Only the fetcher, in the step that raises the head's sync number, and a repair, which writes nothing else, call it.
func (s *Store) NewPages(ctx context.Context, sub string, h *Head, entries iter.Seq[*calferryv1.Entry], expected int) (*Pages, error) {
	n := 1
	for expected > n*targetMean {
		n *= 2
	}
	next := emptyPages(sub, nuid.Next(), n)
	for e := range entries {
		next.Put(e)
	}
	if err := s.SavePages(ctx, next); err != nil {
		return nil, err
	}
	h.PageSet, h.Pages = next.set, uint32(n) //nolint:gosec // a few dozen
	return next, nil
}

// RemovePages removes the page set that h names. It is for a set that no stored head can name any more: the one that
// a successful CAS has replaced, or a new one whose CAS was refused. Whoever still reads the replaced set holds an
// older head, with which it can write nothing.
func (s *Store) RemovePages(ctx context.Context, sub string, h *Head) error {
	for n := range int(h.GetPages()) {
		if err := s.kv.Purge(ctx, pageKey(sub, h.GetPageSet(), n)); err != nil {
			return fmt.Errorf("remove page %d of subscription %s: %w", n, sub, err)
		}
	}
	return nil
}
