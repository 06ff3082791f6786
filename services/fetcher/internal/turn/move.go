package turn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/ledger"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// agreedMoves is how many fetches in a row must be sent to the same address for good before it is asked first: one
// answer may be a mistake, or a network that wants a login.
const agreedMoves = 2

// move is where a feed's server has sent us for good. It is kept in the head, sealed: it is as secret as the feed's
// address.
type move struct {
	// From is the hash of the address that was asked: another address of the owner's has another way.
	From string `json:"from"`
	To   string `json:"to"`
	Seen int    `json:"seen"`
}

func (t *turn) moveContext() []byte { return []byte("moved:" + t.id) }

// knownMove reads the move of this source out of the head; an empty one when there is none that can be read.
func (t *turn) knownMove(head *ledger.Head, source *calferryv1.FeedSource) move {
	var m move
	plain, err := t.FeedKey.Open(head.GetSealedMoved(), t.moveContext())
	if len(head.GetSealedMoved()) == 0 || err != nil || json.Unmarshal(plain, &m) != nil || m.From != addressHash(source) {
		return move{From: addressHash(source)}
	}
	return m
}

func addressHash(source *calferryv1.FeedSource) string {
	sum := sha256.Sum256([]byte(source.GetUrl()))
	return hex.EncodeToString(sum[:])
}

// get asks the address to which the feed has moved, else the owner's. When the new one fails, the owner's is asked, and
// tells anew.
func (t *turn) get(ctx context.Context, req feed.Request, known move) (*feed.Response, move, error) {
	next := move{From: known.From}
	if known.Seen >= agreedMoves {
		moved := req
		moved.Source = &calferryv1.FeedSource{Url: known.To}
		if sameOrigin(req.Source.GetUrl(), known.To) {
			moved.Source = withAddress(req.Source, known.To)
		} else {
			moved.Local = false // only the owner may name an address of this machine's network
		}
		resp, err := t.Feed.Get(ctx, moved)
		var fe *feed.Error
		switch {
		case err == nil && resp.MovedTo == "":
			return resp, known, nil
		case err == nil:
			return resp, next, nil // on again: the owner's address tells where
		case !errors.As(err, &fe) || fe.Kind == feed.Busy || ctx.Err() != nil:
			return nil, known, err
		}
		t.Logger.InfoContext(ctx, "The address that a feed has moved to fails: asking the one before", slog.String("subscription", t.id))
	}
	resp, err := t.Feed.Get(ctx, req)
	if err != nil {
		return nil, next, err
	}
	if resp.MovedTo != "" && memorable(req.Source, resp.MovedTo) {
		next.To, next.Seen = resp.MovedTo, 1
		if known.To == next.To {
			next.Seen = min(known.Seen+1, agreedMoves)
		}
	}
	return resp, next, nil
}

func withAddress(source *calferryv1.FeedSource, address string) *calferryv1.FeedSource {
	return &calferryv1.FeedSource{
		Url: address, User: source.GetUser(), Password: source.GetPassword(), Bearer: source.GetBearer(),
		HeaderName: source.GetHeaderName(), HeaderValue: source.GetHeaderValue(),
	}
}

// memorable moves may be followed without asking the old address first: they give up no encryption, and need no
// credentials that were meant for another server.
func memorable(source *calferryv1.FeedSource, to string) bool {
	from, err := url.Parse(source.GetUrl())
	next, nextErr := url.Parse(to)
	if err != nil || nextErr != nil || from.Scheme == "https" && next.Scheme != "https" {
		return false
	}
	secret := from.User != nil || source.GetUser()+source.GetPassword()+source.GetBearer()+source.GetHeaderValue() != ""
	return !secret || sameOrigin(source.GetUrl(), to)
}

func sameOrigin(a, b string) bool {
	from, err := url.Parse(a)
	to, toErr := url.Parse(b)
	return err == nil && toErr == nil && from.Scheme == to.Scheme && strings.EqualFold(from.Host, to.Host)
}

// sealMove is what the head shall hold of a move; nil when there is none.
func (t *turn) sealMove(m move) ([]byte, error) {
	if m.To == "" {
		return nil, nil
	}
	plain, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode where the feed has moved: %w", err)
	}
	return t.FeedKey.Seal(plain, t.moveContext())
}

// saveMove notes a move when the feed itself has not changed. A head that somebody else writes meanwhile is left to the
// next fetch.
func (t *turn) saveMove(ctx context.Context, f *fetched) error {
	if !f.moved {
		return nil
	}
	head, err := t.Ledger.Head(ctx, t.id)
	if err != nil || !head.Exists() {
		return err
	}
	next := head.Clone()
	next.SealedMoved = f.sealedMoved
	if err := t.Ledger.SwapHead(ctx, t.id, next); err != nil && !errors.Is(err, ledger.ErrConflict) {
		return err
	}
	return nil
}
