package turn

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// compareBuffer is how much of a body is held back until its hash is known, so that one that did not change
// is not even parsed. A longer one is parsed while it comes.
const compareBuffer = 4 << 20

// fetched is what a turn knows of the feed.
type fetched struct {
	unchanged  bool
	plan       *plan.Plan
	settings   plan.Settings
	validators *calferryv1.Validators
	basis      []byte
	// moved says that sealedMoved is not what the head holds: where the feed has moved for good.
	moved       bool
	sealedMoved []byte
	// base is the sync number that was the newest before the feed was asked.
	base uint64
}

// rejectError says that a body is no calendar.
type rejectError struct{ detail string }

func (e *rejectError) Error() string { return e.detail }

// fetch gets the feed, unless it is known to be as it was, and plans it.
func (t *turn) fetch(ctx context.Context, head *ledger.Head, source *calferryv1.FeedSource) (*fetched, error) {
	sub := t.record.Value
	basis, err := basisOf(sub, source, identityOf(head))
	if err != nil {
		return nil, err
	}
	f := &fetched{
		basis: basis, base: head.GetSync(),
		settings: plan.Settings{
			CalendarZone: sub.GetCalendarTimeZone(), Now: t.Now(), Since: sub.GetCreatedAt().AsTime(), Options: sub.GetOptions(),
			Identity: identityOf(head), FeedName: sub.GetName(),
		},
	}
	known := countingValidators(head, basis, sub.GetRetries(), f.settings.Now)
	begin := t.Clock()
	defer func() { t.metrics.seconds.Observe(t.Clock().Sub(begin).Seconds()) }()
	before := t.knownMove(head, source)
	resp, move, err := t.get(ctx, feed.Request{
		Source: source, Local: sub.GetLocalFeed(),
		ETag: known.GetEtag(), LastModified: known.GetLastModified(),
	}, before)
	if err != nil {
		return nil, err
	}
	f.sealedMoved = head.GetSealedMoved()
	if f.moved = move != before; f.moved {
		if f.sealedMoved, err = t.sealMove(move); err != nil {
			return nil, err
		}
	}
	t.report.HttpStatus = int32(resp.Status) //nolint:gosec // three digits
	t.fresh = resp.FreshFor
	t.noteMove(resp, move)
	if resp.NotModified {
		f.unchanged = true
		return f, nil
	}
	defer func() { _ = resp.Body.Close() }()
	f.validators = &calferryv1.Validators{Etag: resp.ETag, LastModified: resp.LastModified}
	return f, t.read(resp.Body, known.GetBodyHash(), f)
}

// read plans the body, unless it has the known hash.
func (t *turn) read(body *feed.Body, known []byte, f *fetched) error {
	defer func() {
		t.report.Bytes = uint64(body.Size())
		t.metrics.bytes.Add(float64(body.Size()))
	}()
	var reader io.Reader = body
	if len(known) > 0 {
		var start bytes.Buffer
		if _, err := io.CopyN(&start, body, compareBuffer); err != nil && err != io.EOF { //nolint:errorlint // CopyN's contract
			return err
		}
		if f.unchanged = bytes.Equal(body.Sum(), known); f.unchanged {
			return nil
		}
		reader = io.MultiReader(&start, body)
	}
	p, err := plan.Desired(reader, f.settings)
	if err != nil {
		return fmt.Errorf("read the feed: %w", err)
	}
	// The reader may stop at the end of the calendar; hash and length are those of the whole body.
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if len(known) > 0 && bytes.Equal(body.Sum(), known) {
		f.unchanged = true
		return nil
	}
	t.describe(p)
	if p.Action == plan.Reject {
		return &rejectError{detail: orElse(p.Detail, "the body is not a calendar: check the address")}
	}
	if body.Cut() != nil {
		p.BreakOff()
	}
	if p.Action != plan.Apply {
		t.report.FeedAction = string(p.Action)
		t.report.Warnings++
		t.note(p.Detail)
	}
	t.feedInterval = p.RefreshInterval
	f.plan = p
	f.validators.BodyHash = body.Sum()
	if !p.Complete || p.Action == plan.AdditiveOnly {
		f.validators = nil
	}
	return nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
