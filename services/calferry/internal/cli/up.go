package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/services/calferry/internal/datadir"
	"github.com/calferry/calferry/services/calferry/internal/demo"
	"github.com/calferry/calferry/services/calferry/internal/embedredis"
	"github.com/calferry/calferry/services/calferry/internal/enrol"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

type upSettings struct {
	Feeds    []string `flag:"feed" file:"up.feeds" hide:"true" help:"feeds to show in the simulated Google instead of the samples: paths or addresses"`
	Simulate string   `flag:"simulate" file:"up.simulate" default:"auto" help:"auto (a new data directory without --google-client-id), always or never: use a simulated Google"`
}

// simulatorToken is the file in the data directory that says that its Google is the simulator, and holds the
// token for it.
const simulatorToken = "simulator.token"

func (a *App) upCommand() *cobra.Command {
	data, google, cfg, sim, grant := &dataSettings{}, &googleSettings{}, &upSettings{}, &simulateSettings{}, &grantSettings{}
	s := &stack.Config{}
	return a.command("up", "Run everything in this process, with console", cobra.NoArgs,
		[]any{data, &s.State, cfg, google, grant, sim, &s.NATS, &s.Redis, &s.Fetcher, &s.Writer},
		func(ctx context.Context, e *env, _ []string) (err error) {
			dir, err := data.open()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, dir.Close()) }()
			u := &up{app: a, env: e, dir: dir, stack: s, settings: cfg, simulate: sim}
			s.Endpoint = google.Endpoint
			return u.run(ctx, grant.ClientID != "")
		})
}

// up is one run of `calferry up`.
type up struct {
	app      *App
	env      *env
	dir      *datadir.Dir
	stack    *stack.Config
	settings *upSettings
	simulate *simulateSettings

	sim      *gcalsim.Sim
	simFile  *simFile
	simURL   string
	simToken string
}

func (u *up) run(ctx context.Context, credentials bool) (err error) {
	console, err := listen(ctx, "--listen", u.stack.State.WithDefaults().Listen)
	if err != nil {
		return err
	}
	defer console.Close()
	simulated, err := u.simulated(credentials)
	if err != nil {
		return err
	}
	var simulator net.Listener
	if simulated {
		if simulator, err = u.startSimulator(ctx); err != nil {
			return err
		}
		defer simulator.Close()
	} else if len(u.settings.Feeds) > 0 {
		return errors.New("--feed shows feeds in the simulated Google; with a real one, add them by `calferry feed add` or in the console")
	}
	s, err := stack.Open(ctx, u.dir, *u.stack, u.env.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	if simulated {
		s.AddStore("simulator file", u.simFile.run)
		s.AddStore("simulator", func(ctx context.Context) error {
			defer context.AfterFunc(ctx, u.sim.Close)() // ends what it holds back
			return daemon.ServeHTTP(ctx, simulator, u.sim)
		})
		if err := u.enrol(ctx, s); err != nil {
			return err
		}
	}
	s.AddStore("console", func(ctx context.Context) error { return daemon.ServeHTTP(ctx, console, u.routes(s)) })
	u.banner(s, consoleURL(console.Addr().String(), u.stack.State.WithDefaults().PathPrefix))
	return s.Run(ctx)
}

func (u *up) routes(s *stack.Stack) http.Handler {
	mux := http.NewServeMux()
	s.Probes.Register(mux)
	mux.Handle("/", s.State.Handler())
	return mux
}

// simulated decides whether Google is the simulator: a data directory stays with what it began with.
func (u *up) simulated(credentials bool) (bool, error) {
	_, err := os.Stat(u.dir.Path(simulatorToken))
	began := err == nil
	switch u.settings.Simulate {
	case "always":
		return true, nil
	case "never":
		if began {
			return false, fmt.Errorf("the data directory %s holds the state of a simulated Google: choose another with --data-dir", u.dir.Path())
		}
		return false, nil
	case "auto", "":
		_, err := os.Stat(u.dir.Path("nats"))
		fresh := errors.Is(err, fs.ErrNotExist)
		return began || fresh && !credentials, nil
	}
	return false, fmt.Errorf("--simulate %q: use auto, always or never", u.settings.Simulate)
}

func (u *up) startSimulator(ctx context.Context) (net.Listener, error) {
	token, err := os.ReadFile(u.dir.Path(simulatorToken))
	if errors.Is(err, fs.ErrNotExist) {
		token = []byte(rand.Text())
		err = os.WriteFile(u.dir.Path(simulatorToken), token, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	u.simToken = string(token)
	if u.sim, err = u.simulate.simulator(); err != nil {
		return nil, err
	}
	u.simFile = &simFile{sim: u.sim, path: u.dir.Path("simulator.json")}
	if err := u.simFile.load(); err != nil {
		return nil, err
	}
	u.sim.AcceptToken(u.simToken, gcalsim.DefaultAccount)
	l, err := listen(ctx, "--simulator-listen", u.simulate.Listen)
	if err != nil {
		return nil, err
	}
	u.simURL = "http://" + l.Addr().String()
	u.stack.Endpoint = u.simURL + "/calendar/v3/"
	google := &u.stack.State
	google.ClientID, google.ClientSecret = gcalsim.DefaultClientID, gcalsim.DefaultClientSecret
	google.AuthURL, google.TokenURL, google.RevokeURL = u.simURL+"/o/oauth2/v2/auth", u.simURL+"/token", u.simURL+"/revoke"
	return l, nil
}

// enrol subscribes simulated calendars to the given feeds, or to the samples.
func (u *up) enrol(ctx context.Context, s *stack.Stack) error {
	clerk := &enrol.Clerk{Registry: s.Registry, FeedKey: s.FeedKey, AccountKey: s.AccountKey}
	account := enrol.Account{
		ID: streams.Token("simulated account"), Email: gcalsim.DefaultAccount, Token: u.simToken,
		Project: strings.SplitN(gcalsim.DefaultClientID, "-", 2)[0],
	}
	if err := clerk.Account(ctx, account); err != nil {
		return err
	}
	feeds, err := u.feeds()
	if err != nil {
		return err
	}
	for _, f := range feeds {
		if err := u.sim.AddCalendar(f.Calendar, f.Zone, gcalsim.Titled(f.Name)); err != nil {
			u.env.log.DebugContext(ctx, "The simulated calendar is there already: "+err.Error())
		}
		created, err := clerk.Feed(ctx, enrol.Feed{
			ID: streams.Token("up\x00" + f.Path), Name: f.Name, Address: f.Path,
			Account: account, Calendar: f.Calendar, Zone: func(context.Context) (string, error) { return f.Zone, nil },
		})
		if err != nil {
			return err
		}
		if created || len(u.settings.Feeds) > 0 {
			if _, err := s.Fetch.Put(ctx, streams.FetchKey(streams.Token("up\x00"+f.Path)), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *up) feeds() ([]demo.Feed, error) {
	if len(u.settings.Feeds) == 0 {
		dir, err := u.dir.Sub("samples")
		if err != nil {
			return nil, err
		}
		return demo.Write(dir, time.Now())
	}
	var feeds []demo.Feed
	for _, address := range u.settings.Feeds {
		path := address
		var name string
		if isPath(address) {
			abs, err := filepath.Abs(strings.TrimPrefix(address, "file://"))
			if err != nil {
				return nil, err
			}
			if _, err := os.Stat(abs); err != nil {
				return nil, &exitError{exitFeed, fmt.Errorf("feed: %w", err)}
			}
			path, name = abs, filepath.Base(abs)
		} else if name, _, _ = strings.Cut(feed.Label(address), "/"); name == "" {
			return nil, &exitError{exitFeed, errors.New("--feed: an address cannot be read: copy it again from where the calendar is shared")}
		}
		feeds = append(feeds, demo.Feed{Name: name, Calendar: streams.Token(path)[:12] + "@group.calendar.google.com", Zone: u.simulate.Zone, Path: path})
	}
	return feeds, nil
}

// consoleURL is where a browser on this machine finds the console that listens on address.
func consoleURL(address, prefix string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + address + prefix
}

func (u *up) banner(s *stack.Stack, console string) {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "\n  Calferry is up: %s\n", console)
	if u.sim != nil {
		_, _ = fmt.Fprintf(&b, "  No Google credentials, so Google is simulated: %s shows the calendars it holds.\n", u.simURL)
		_, _ = fmt.Fprintf(&b, "  Each of them takes %g writes a second after a burst of %d: watch writes being told to wait, and arrive.\n", u.simulate.Rate, u.simulate.Burst)
	}
	if s.Redis.Kind == embedredis.Memory {
		_, _ = fmt.Fprintln(&b, "  Rate tokens are kept in this process (no redis-server found): a restart forgets the pace, never an event.")
	}
	_, _ = fmt.Fprintf(&b, "  Data is in %s; to start over, stop and delete it.\n\n", u.dir.Path())
	_, _ = u.app.Stderr.Write([]byte(b.String()))
}
