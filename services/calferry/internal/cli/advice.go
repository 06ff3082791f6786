package cli

import (
	"fmt"
	"strings"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/services/calferry/internal/oneshot"
)

// once puts advice for a server, which goes on by itself and has accounts, into that for a command that ends.
var once = strings.NewReplacer(
	feed.AskedAgain, "run the command again later",
	gcal.Transient.Advice(), "run the command again later",
	gcal.AuthRevoked.Advice(), "pass a fresh access token with --google-token-file",
	gcal.AuthStale.Advice(), "pass a fresh access token with --google-token-file",
	gcal.CalendarGone.Advice(), "check the id that --calendar names, and that the token's account may see that calendar",
)

// onceError tells an error in the words of a command that ends.
type onceError struct{ err error }

func (e onceError) Error() string { return once.Replace(e.err.Error()) }
func (e onceError) Unwrap() error { return e.err }

// advise ends a result's error in what to do now, without a server that runs.
func advise(res *oneshot.Result, dir, subscription string) {
	switch res.State {
	case oneshot.Quarantined:
		res.Error += ": their reasons are listed; they are tried again when the feed changes them"
	case oneshot.Held:
		res.Error += fmt.Sprintf(": sync again when the feed is whole, or decide: start `calferry up --data-dir %q`, run `calferry holds approve %s` beside it to delete "+
			"them, or `discard` to keep them, stop it, and sync again", dir, subscription)
	default:
		res.Error = once.Replace(res.Error)
	}
}
