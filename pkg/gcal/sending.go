package gcal

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// watchSending calls onSend each time a request made with the returned context starts to go out, and
// lets the caller ask whether any did: a write of which nothing was sent did not happen.
func watchSending(ctx context.Context, onSend func()) (context.Context, func() bool) {
	var sent atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() {
			sent.Store(true)
			onSend()
		},
	}), sent.Load
}
