package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/lifecycle"
	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/services/calferry/internal/datadir"
	"github.com/calferry/calferry/services/calferry/internal/embedredis"
	"github.com/calferry/calferry/services/calferry/internal/oneshot"
	"github.com/calferry/calferry/services/calferry/internal/stack"
	"github.com/calferry/calferry/services/fetcher"
)

type dataSettings struct {
	DataDir string `flag:"data-dir" file:"data.dir" help:"directory for everything that is kept (default: the XDG data home)"`
}

// path is the directory that was named, or the default one.
func (s dataSettings) path() string { return cmp.Or(s.DataDir, datadir.Default()) }

func (s dataSettings) open() (*datadir.Dir, error) { return datadir.Open(s.path()) }

type googleSettings struct {
	Endpoint string `flag:"google-endpoint" file:"google.endpoint" help:"address of the Calendar API; Google's own when empty"`
}

type syncSettings struct {
	Token config.Secret `flag:"google-token" file:"google.token" help:"access token for the calendar"`
}

const syncHelp = `Carry a feed into a calendar once, until nothing is pending.

Exit status: 0 when the calendar holds what the feed wants; else the worst of
5 (the token is refused), 6 (the feed cannot be read), 7 (the time is up),
4 (deletions wait for approval), 3 (Google refuses events); 130 and 143 when
SIGINT or SIGTERM stopped it; 1 for anything else. With --json, stdout holds
one object whatever happens, with the state and the error. What waits stays in
the data directory, and the same command goes on with it.`

// wantsJSON tells whether a command line that cannot be read asks for JSON.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		if arg == "--" {
			return false
		}
		name, value, given := strings.Cut(arg, "=")
		if on, err := strconv.ParseBool(value); name == "--json" && (!given || on && err == nil) {
			return true
		}
	}
	return false
}

func (a *App) syncCommand() *cobra.Command {
	data, google, cfg := &dataSettings{}, &googleSettings{}, &syncSettings{}
	services := &stack.Config{Redis: embedredis.Config{}}
	redis, fetch, write := &services.Redis, &services.Fetcher, &services.Writer
	now, zone := &nowFlag{}, zoneFlag("")
	var asJSON *bool
	var calendar *string
	var timeout time.Duration
	var options *optionFlags
	told := false
	cmd := a.command("sync FEED", "Carry a feed into a calendar once, until nothing is pending", cobra.ExactArgs(1),
		[]any{data, google, cfg, redis, fetch, write},
		func(ctx context.Context, e *env, args []string) error {
			shaped, err := options.given()
			if err != nil {
				return err
			}
			req := oneshot.Request{
				Feed: args[0], Calendar: *calendar, Endpoint: google.Endpoint, Token: cfg.Token.Reveal(), Zone: string(zone), Options: shaped,
			}
			req.Check = func(ctx context.Context) error {
				p, err := readPlan(ctx, *fetch, req.Feed, plan.Settings{CalendarZone: "UTC", Now: now.clock()()})
				if err == nil && p.Action == plan.Reject {
					err = rejected(p)
				}
				return err
			}
			if err := checkSync(ctx, req, *fetch); err != nil {
				return err
			}
			services.Endpoint, services.Now = google.Endpoint, now.clock()
			res, err := a.sync(ctx, e, data, *services, req, timeout)
			if err != nil {
				return syncError(err)
			}
			told = true
			advise(res, data.path(), req.ID())
			if *asJSON {
				err = a.writeJSON(res)
			} else {
				err = a.printResult(res)
			}
			if err != nil {
				return err
			}
			return outcome(res)
		})
	// What ends before the sync is told to programs in the same form.
	tell := func(ctx context.Context, err error, asked bool) error {
		if err == nil || told || !asked {
			return err
		}
		return errors.Join(err, a.writeJSON(oneshot.Failure(stateOf(err), orSignal(ctx, err).Error())))
	}
	sync, check := cmd.RunE, cmd.Args
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return tell(cmd.Context(), sync(cmd, args), *asJSON) }
	cmd.Args = func(cmd *cobra.Command, args []string) error { return tell(cmd.Context(), check(cmd, args), *asJSON) }
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// The flags after the one that is wrong have not been read.
		return tell(cmd.Context(), cmd.Parent().FlagErrorFunc()(cmd, err), wantsJSON(a.args))
	})
	cmd.Long = syncHelp
	cmd.Annotations[oneShot] = "yes"
	asJSON = jsonFlag(cmd)
	calendar = cmd.Flags().String("calendar", "", "id of the Google calendar (required)")
	spanVar(cmd.Flags(), &timeout, "timeout", "give up after this long (exit 7); what waits is kept for the next run")
	cmd.Flags().Var(now, "now", "sync as of this moment")
	cmd.Flags().Var(&zone, "calendar-timezone", "zone of the calendar; asked of Google when not given")
	options = addOptionFlags(cmd)
	return cmd
}

// checkSync refuses what cannot work before anything is created.
func checkSync(ctx context.Context, req oneshot.Request, cfg fetcher.Config) error {
	switch {
	case req.Calendar == "":
		return errors.New("which calendar? name its id with --calendar")
	case req.Token == "":
		return errors.New("no access token: name a file that holds one with --google-token-file, or set CALFERRY_GOOGLE_TOKEN")
	}
	if isPath(req.Feed) {
		body, err := openFeed(ctx, cfg, req.Feed)
		if err != nil {
			return err
		}
		return body.Close()
	}
	return nil
}

// sync runs the whole pipeline in this process.
func (a *App) sync(ctx context.Context, e *env, data *dataSettings, cfg stack.Config, req oneshot.Request, timeout time.Duration) (_ *oneshot.Result, err error) {
	dir, err := data.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	s, err := stack.Open(ctx, dir, cfg, e.log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()

	line := a.progressLine()
	defer line.end()
	r := &oneshot.Runner{Stack: s, Progress: line.show}
	if err := r.Prepare(ctx, req); err != nil {
		return nil, err
	}

	run, stop := context.WithCancel(ctx)
	defer stop()
	if timeout > 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeoutCause(run, timeout, oneshot.ErrTimeUp)
		defer cancel()
	}
	// Whoever ends the sync ends the services first: what they have done is then all in the ledger, and told.
	work, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := s.Run(run)
		giveUp(cmp.Or(err, context.Cause(run)))
		ended <- err
	}()
	defer func() { stop(); err = errors.Join(err, <-ended) }()
	return r.Run(work, req)
}

// syncError gives an error of the look-up its exit code.
func syncError(err error) error {
	if g, ok := errors.AsType[*gcal.Error](err); ok {
		err = onceError{err}
		if g.Class == gcal.AuthRevoked || g.Class == gcal.AuthStale {
			return &exitError{exitAuth, err}
		}
	}
	return err
}

// stateOf is the state of a run that ended with an error before there was a sync.
func stateOf(err error) oneshot.State {
	if errors.Is(err, context.Canceled) || errors.Is(err, lifecycle.ErrStopping) {
		return oneshot.Interrupted
	}
	if g, ok := errors.AsType[*gcal.Error](err); ok && (g.Class == gcal.CalendarGone || g.Class == gcal.CalendarReadOnly) {
		return oneshot.CalendarFailed
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		switch exit.code {
		case exitFeed:
			return oneshot.FeedFailed
		case exitAuth:
			return oneshot.AuthFailed
		}
	}
	return oneshot.Failed
}

// outcome turns how a sync ended into an exit code.
func outcome(res *oneshot.Result) error {
	switch res.State {
	case oneshot.Settled:
		return nil
	case oneshot.Quarantined:
		return &exitError{exitQuarantined, errors.New(res.Error)}
	case oneshot.Held:
		return &exitError{exitHeld, errors.New(res.Error)}
	case oneshot.TimedOut:
		return &exitError{exitTimedOut, errors.New(res.Error)}
	case oneshot.Interrupted:
		return errors.New(res.Error) // the signal gives the exit code
	case oneshot.FeedFailed:
		return &exitError{exitFeed, errors.New(res.Error)}
	case oneshot.AuthFailed:
		return &exitError{exitAuth, errors.New(res.Error)}
	}
	return &exitError{exitFailed, errors.New(res.Error)}
}

func (a *App) printResult(res *oneshot.Result) error {
	_, err := fmt.Fprintf(a.Stdout, "%s: %d created, %d updated, %d deleted, %d unchanged, %d waiting; told to slow down %d times, %d requests, %.1f s\n",
		res.State, res.Created, res.Updated, res.Deleted, res.Unchanged, res.Waiting, res.Throttled, res.Requests, res.DurationSeconds)
	for _, q := range res.Quarantined {
		_, _ = fmt.Fprintf(a.Stdout, "quarantined: %s: %s\n", q.Key, q.Reason)
	}
	return err
}
