package cli

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/pkg/gcalsim"
)

type simulateSettings struct {
	Listen   string        `flag:"simulator-listen" file:"simulator.listen" default:"127.0.0.1:8081" help:"host:port of the simulator"`
	Calendar []string      `flag:"simulator-calendars" file:"simulator.calendars" default:"team@example.com" help:"calendars to make"`
	Zone     string        `flag:"simulator-zone" file:"simulator.zone" default:"UTC" help:"IANA zone of the calendars"`
	Rate     float64       `flag:"simulator-rate" file:"simulator.rate" default:"5" help:"writes per second that a calendar takes; 0 for no limit"`
	Burst    int           `flag:"simulator-burst" file:"simulator.burst" default:"30" help:"writes that a calendar takes at once"`
	Latency  time.Duration `flag:"simulator-latency" file:"simulator.latency" default:"50ms" help:"how long a request takes"`
}

// simulator makes a simulated Google with the calendars and limits of the settings.
func (s simulateSettings) simulator() (*gcalsim.Sim, error) {
	cfg := gcalsim.Config{Latency: s.Latency, Jitter: s.Latency / 4}
	if s.Rate > 0 {
		cfg.CalendarLimit = gcalsim.TokenBucket{Rate: s.Rate, Burst: s.Burst}
	}
	sim := gcalsim.New(cfg)
	for _, id := range s.Calendar {
		if err := sim.AddCalendar(id, s.Zone); err != nil {
			return nil, fmt.Errorf("simulated calendar %s: %w", id, err)
		}
	}
	return sim, nil
}

func (a *App) simulateCommand() *cobra.Command {
	cfg := &simulateSettings{}
	return a.command("simulate", "Serve a simulated Google Calendar", cobra.NoArgs, []any{cfg},
		func(ctx context.Context, e *env, _ []string) error {
			sim, err := cfg.simulator()
			if err != nil {
				return err
			}
			l, err := listen(ctx, "--simulator-listen", cfg.Listen)
			if err != nil {
				return err
			}
			base := "http://" + l.Addr().String()
			_, _ = fmt.Fprintf(a.Stderr, "Simulated Google Calendar on %s\n  --google-endpoint %s/calendar/v3/ --google-token %s\n",
				base, base, sim.IssueToken(gcalsim.DefaultAccount))
			defer context.AfterFunc(ctx, sim.Close)() // ends what it holds back
			return daemon.ServeHTTP(ctx, l, sim)
		})
}

// listen opens addr and, when it is taken, names the flag that chooses another.
func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: choose another address with %s: %w", addr, flag, err)
	}
	return l, nil
}
