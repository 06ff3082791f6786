// Package daemon is a service as a process of its own: its settings, its log, its connection to NATS, its
// probes and metrics, and an orderly end.
//
// It guarantees that a service whose start fails says why in one line, that readiness fails before the
// service stops taking work, and that the service has ended before its connections close.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/lifecycle"
	"github.com/calferry/calferry/pkg/natsconn"
	"github.com/calferry/calferry/pkg/telemetry"
)

// Service is what runs. Run blocks until its context ends and then returns nil.
type Service interface {
	Run(ctx context.Context) error
	Ready(ctx context.Context) error
}

// Settings are those that every service has.
type Settings struct {
	Telemetry telemetry.Config
	NATS      natsconn.Config
	OpsListen string `flag:"ops-listen" file:"ops.listen" default:":9090" help:"host:port of /livez, /readyz and /metrics; empty for none"`
}

// Host is what a service is opened with.
type Host struct {
	Log     *slog.Logger
	Metrics *prometheus.Registry
	NATS    *natsconn.Conn

	group  *lifecycle.Group
	probes *telemetry.Probes
	closed []func() error
}

// OnClose adds something to do after the service has ended, in reverse order.
func (h *Host) OnClose(fn func() error) { h.closed = append(h.closed, fn) }

// AddCheck adds a readiness check.
func (h *Host) AddCheck(name string, run func(context.Context) error) { h.probes.AddCheck(name, run) }

// Serve adds an HTTP server on addr; flag names the setting to change when the address is taken. Streams that
// are still open five seconds after the service ended are cut.
func (h *Host) Serve(ctx context.Context, flag, addr string, handler http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: choose another address with --%s: %w", addr, flag, err)
	}
	h.group.Add("http "+addr, func(ctx context.Context) error { return ServeHTTP(ctx, l, handler) })
	return nil
}

// ServeHTTP serves l until ctx ends, then gives running requests five seconds.
func ServeHTTP(ctx context.Context, l net.Listener, handler http.Handler) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		// Long answers (event streams) end with the process instead of holding up its end.
		BaseContext: func(net.Listener) context.Context { return base },
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		cancel()
		end, release := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer release()
		if srv.Shutdown(end) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(l)
	if !stop() {
		<-done
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Run opens the service and runs it until ctx ends.
func Run(ctx context.Context, name string, s Settings, log *slog.Logger, open func(context.Context, *Host) (Service, error)) (err error) {
	reg := telemetry.NewRegistry()
	h := &Host{Log: log, Metrics: reg, group: lifecycle.NewGroup(log), probes: telemetry.NewProbes(reg)}
	defer func() {
		for _, v := range slices.Backward(h.closed) {
			err = errors.Join(err, v())
		}
	}()
	if h.NATS, err = natsconn.Connect(ctx, s.NATS, name, log); err != nil {
		return err
	}
	h.OnClose(func() error { h.NATS.Close(); return nil })
	h.AddCheck("nats", h.NATS.Ready)
	if s.OpsListen != "" {
		mux := http.NewServeMux()
		h.probes.Register(mux)
		if err := h.Serve(ctx, "ops-listen", s.OpsListen, mux); err != nil {
			return err
		}
	}
	service, err := open(ctx, h)
	if err != nil {
		return err
	}
	h.AddCheck(name, service.Ready)
	h.group.Add(name, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, h.probes.Stopping)()
		return service.Run(ctx)
	})
	return h.group.Run(ctx)
}

// sections of a configuration file that serves all services, each with the services that know every key in it;
// what another service's section holds is its own affair.
var sections = map[string]string{
	"fetcher": "fetcher", "feed": "fetcher", "writer": "writer", "pace": "writer", "redis": "writer", "state": "state",
	"google": "", "keys": "", "provision": "", "data": "", "simulator": "", "up": "",
}

// Main is the main function of a service's own binary: it reads the settings from args, the environment and
// the file that --config names, runs the service until a signal, and returns the exit code. settings is a
// struct for pkg/config, filled before open is called.
func Main(name string, args []string, stderr io.Writer, settings any, open func(context.Context, *Host) (Service, error)) int {
	ctx, stop := lifecycle.Signals(context.Background())
	defer stop()
	if err := run(ctx, name, args, stderr, settings, open); err != nil && !errors.Is(err, pflag.ErrHelp) {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

func run(ctx context.Context, name string, args []string, stderr io.Writer, settings any, open func(context.Context, *Host) (Service, error)) error {
	s := Settings{}
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("config", os.Getenv("CALFERRY_CONFIG"), "YAML configuration file [CALFERRY_CONFIG]")
	binding, err := config.Bind(flags, &s, settings)
	if err != nil {
		return err
	}
	for section, owner := range sections {
		if owner != name {
			binding.IgnoreSections(section)
		}
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w; --help lists the flags", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; --help lists the flags", flags.Arg(0))
	}
	if err := binding.Load(*file, os.LookupEnv); err != nil {
		return err
	}
	log, err := telemetry.NewLogger(stderr, s.Telemetry.LogLevel, s.Telemetry.LogFormat, telemetry.IsTerminal(stderr))
	if err != nil {
		return err
	}
	return Run(ctx, name, s, log, open)
}
