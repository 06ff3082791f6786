package cli

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// redraw is how often a watched table is drawn anew: its times go on though nothing changes.
const redraw = time.Second

// changes streams the statuses of one subscription, or of all when id is empty, until ctx ends or the stream does.
// The error of a stream that ended comes last.
func (c *call) changes(ctx context.Context, id string) (<-chan *calferryv1.WatchSubscriptionsResponse, func() error, error) {
	stream, err := c.WatchSubscriptions(ctx, connect.NewRequest(&calferryv1.WatchSubscriptionsRequest{Id: id}))
	if err != nil {
		return nil, nil, err
	}
	out := make(chan *calferryv1.WatchSubscriptionsResponse)
	go func() {
		defer close(out)
		for stream.Receive() {
			select {
			case out <- stream.Msg():
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, stream.Err, nil
}

// watch shows what changes until ctx ends: a table that is drawn over on a terminal, a line for each change elsewhere.
func (c *call) watch(ctx context.Context) error {
	changes, failed, err := c.changes(ctx, "")
	if err != nil {
		return err
	}
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	all := map[string]*calferryv1.SubscriptionStatus{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if !c.json && c.Terminal {
				c.draw(all)
			}
		case change, ok := <-changes:
			if !ok {
				if ctx.Err() != nil {
					return nil
				}
				return failed()
			}
			if err := c.tell(all, change); err != nil {
				return err
			}
		}
	}
}

// tell keeps a change, and writes its line unless a table shows it.
func (c *call) tell(all map[string]*calferryv1.SubscriptionStatus, change *calferryv1.WatchSubscriptionsResponse) error {
	s := change.GetSubscription()
	all[s.GetId()] = s
	if change.GetRemoved() {
		delete(all, s.GetId())
	}
	switch {
	case c.json:
		data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(change)
		if err == nil {
			_, err = fmt.Fprintf(c.Stdout, "%s\n", data)
		}
		return err
	case c.Terminal:
		return nil
	case change.GetRemoved():
		_, err := fmt.Fprintf(c.Stdout, "%s  %s  removed\n", s.GetId(), s.GetName())
		return err
	}
	_, err := fmt.Fprintf(c.Stdout, "%s  %s  %s  %s\n", s.GetId(), s.GetName(), showStatus(s.GetHealth()), showProgress(s, time.Now()))
	return err
}

// draw writes the table over the one before, in one piece so that it does not flicker.
func (c *call) draw(all map[string]*calferryv1.SubscriptionStatus) {
	subs := slices.SortedFunc(maps.Values(all), func(a, b *calferryv1.SubscriptionStatus) int {
		return strings.Compare(a.GetName()+a.GetId(), b.GetName()+b.GetId())
	})
	var b bytes.Buffer
	b.WriteString("\x1b[H\x1b[2J")
	w := columns(&b)
	table(w, subs)
	_ = w.Flush() // into memory
	_, _ = c.Stdout.Write(b.Bytes())
}
