package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/gcal"
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

// open opens the directory that was named, or the default one.
func (s dataSettings) open() (*datadir.Dir, error) {
	if s.DataDir == "" {
		return datadir.Open(datadir.Default())
	}
	return datadir.Open(s.DataDir)
}

type googleSettings struct {
	Endpoint string `flag:"google-endpoint" file:"google.endpoint" help:"address of the Calendar API; Google's own when empty"`
}

type syncSettings struct {
	Token config.Secret `flag:"google-token" file:"google.token" help:"access token for the calendar"`
}

func (a *App) syncCommand() *cobra.Command {
	data, google, cfg := &dataSettings{}, &googleSettings{}, &syncSettings{}
	services := &stack.Config{Redis: embedredis.Config{}}
	redis, fetch, write := &services.Redis, &services.Fetcher, &services.Writer
	now, zone := &nowFlag{}, zoneFlag("")
	var asJSON *bool
	var calendar *string
	var timeout *time.Duration
	var options *optionFlags
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
			res, err := a.sync(ctx, e, data, *services, req, *timeout)
			if err != nil {
				return syncError(err)
			}
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
	cmd.Annotations[oneShot] = "yes"
	asJSON = jsonFlag(cmd)
	calendar = cmd.Flags().String("calendar", "", "id of the Google calendar (required)")
	timeout = cmd.Flags().Duration("timeout", 0, "give up after this long (exit 7); what waits is kept for the next run")
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

	run, stop := context.WithCancel(ctx)
	work, giveUp := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		err := s.Run(run)
		giveUp(err)
		ended <- err
	}()
	defer func() { stop(); err = errors.Join(err, <-ended) }()

	if timeout > 0 {
		var cancel context.CancelFunc
		work, cancel = context.WithTimeoutCause(work, timeout, oneshot.ErrTimeUp)
		defer cancel()
	}
	line := a.progressLine()
	defer line.end()
	r := &oneshot.Runner{Stack: s, Progress: line.show}
	return r.Run(work, req)
}

// syncError gives an error of the look-up its exit code.
func syncError(err error) error {
	if g, ok := errors.AsType[*gcal.Error](err); ok {
		if g.Class == gcal.AuthRevoked || g.Class == gcal.AuthStale {
			return &exitError{exitAuth, err}
		}
	}
	return err
}

// outcome turns how a sync ended into an exit code.
func outcome(res *oneshot.Result) error {
	switch res.State {
	case oneshot.Settled:
		return nil
	case oneshot.Quarantined:
		return &exitError{exitQuarantined, errors.New(res.Error + ": their reasons are listed; they are tried again when the feed changes them")}
	case oneshot.Held:
		return &exitError{exitHeld, errors.New(res.Error + ": see `calferry holds`, or sync again when the feed is whole")}
	case oneshot.TimedOut:
		return &exitError{exitTimedOut, errors.New(res.Error)}
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
