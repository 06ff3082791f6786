package pace

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Controller names the rule that searches a calendar's limit.
type Controller string

const (
	// ControllerLane measures what Google accepts between two closures of the gate. The default.
	ControllerLane Controller = "lane"
	// ControllerAIMD increases additively and decreases multiplicatively. For comparison.
	ControllerAIMD Controller = "aimd"
	// ControllerFixed keeps Config.StartPace. For comparison.
	ControllerFixed Controller = "fixed"
)

// Config sets the limits of a Pacer. The zero value of a field means its default.
type Config struct {
	// StartPace is the pace of a calendar nobody knows yet, in writes per second. Default 4, the
	// published safe spacing of 0.25 s.
	StartPace float64
	// MaxPace is the fastest pace of a calendar, in writes per second. Default 20.
	MaxPace float64
	// UserUnitsPerMinute is Google's quota for one user of the project. Default 600.
	UserUnitsPerMinute float64
	// ProjectUnitsPerMinute is Google's quota for the whole project. Default 10,000.
	ProjectUnitsPerMinute float64
	// DayRequests is how many requests of the project are free in a Pacific day. Default 1,000,000.
	DayRequests int
	// DayShare is the part of them after which only requests that are not Far are granted, above 0 and at most 1.
	// Default 0.9.
	DayShare float64
	// Share is the part of both quotas that Calferry uses, above 0 and at most 1. Default 0.95.
	Share float64
	// Lease is how long a lane stays with a turn that shows no sign of life. Every call of the turn
	// renews it. Default 30 s.
	Lease time.Duration
	// CallTimeout bounds one call of Redis, as far as the client has ContextTimeoutEnabled. Default 2 s.
	CallTimeout time.Duration
	// Controller searches the limit of a calendar. Default ControllerLane.
	Controller Controller

	// Now tells which Pacific day it is. Nothing else hangs on this clock: all times are by that of Redis. Default time.Now.
	Now func() time.Time
	// Metrics receives the calferry_pace_ metrics. Nil: none are registered.
	Metrics prometheus.Registerer
	// Logger is told when a gate closes or a lease is lost. Nil: silent.
	Logger *slog.Logger
}

// WithDefaults returns the configuration with defaults in place of zero values.
func (c Config) WithDefaults() Config {
	setDefault(&c.StartPace, 4)
	setDefault(&c.MaxPace, 20)
	setDefault(&c.UserUnitsPerMinute, 600)
	setDefault(&c.ProjectUnitsPerMinute, 10_000)
	setDefault(&c.Share, 0.95)
	setDefault(&c.DayRequests, 1_000_000)
	setDefault(&c.DayShare, 0.9)
	setDefault(&c.Lease, 30*time.Second)
	setDefault(&c.CallTimeout, 2*time.Second)
	setDefault(&c.Controller, ControllerLane)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every field that cannot work.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, value float64) {
		if !(value > 0) {
			errs = append(errs, fmt.Errorf("%s is %v; set it above 0", name, value))
		}
	}
	positive("StartPace", c.StartPace)
	positive("MaxPace", c.MaxPace)
	positive("UserUnitsPerMinute", c.UserUnitsPerMinute)
	positive("ProjectUnitsPerMinute", c.ProjectUnitsPerMinute)
	positive("Share", c.Share)
	positive("DayRequests", float64(c.DayRequests))
	positive("DayShare", c.DayShare)
	positive("Lease", c.Lease.Seconds())
	positive("CallTimeout", c.CallTimeout.Seconds())
	if c.StartPace > c.MaxPace {
		errs = append(errs, fmt.Errorf("StartPace %v is above MaxPace %v; lower the one or raise the other", c.StartPace, c.MaxPace))
	}
	if c.DayShare > 1 {
		errs = append(errs, fmt.Errorf("DayShare is %v; set it to 1 or less", c.DayShare))
	}
	if c.Share > 1 {
		errs = append(errs, fmt.Errorf("Share is %v; set it to 1 or less", c.Share))
	}
	switch c.Controller {
	case ControllerLane, ControllerAIMD, ControllerFixed:
	default:
		errs = append(errs, fmt.Errorf("Controller is %q; use %q, %q or %q", c.Controller, ControllerLane, ControllerAIMD, ControllerFixed))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pace configuration: %w", err)
	}
	return nil
}
