package writer

import (
	"cmp"
	"fmt"
	"time"
)

// Config of the writer. The zero value of each field means its default.
type Config struct {
	Workers        int     `flag:"writer-workers" file:"writer.workers" default:"64" help:"calendars written to at once; all writers together should have 192, or small calendars wait behind large ones"`
	GoogleEndpoint string  `flag:"google-endpoint" file:"google.endpoint" default:"" help:"address of the Calendar API; Google's own when empty"`
	StartPace      float64 `flag:"pace-start" file:"pace.start" default:"4" help:"writes per second to a calendar that nothing is known of"`
	MaxPace        float64 `flag:"pace-max" file:"pace.max" default:"20" help:"most writes per second to one calendar"`
	// UserUnits and ProjectUnits are Google's quotas, of which 95 % are used.
	UserUnits    float64       `flag:"quota-user" file:"quota.user" default:"600" help:"Google's quota per user and minute, in units"`
	ProjectUnits float64       `flag:"quota-project" file:"quota.project" default:"10000" help:"Google's quota of the project per minute, in units"`
	DayRequests  int           `flag:"quota-day" file:"quota.day" default:"1000000" help:"requests of the project that are free in a day, Pacific time"`
	DayShare     float64       `flag:"quota-day-share" file:"quota.day_share" default:"0.9" help:"part of the day's requests after which only events that start soon are written until the day turns"`
	NearDays     int           `flag:"quota-near-days" file:"quota.near_days" default:"14" help:"days within which an event starts soon"`
	ProofAge     time.Duration `flag:"writer-proof-age" file:"writer.proof_age" default:"1m" help:"age of a lost request from which on a look at the event proves that it did not arrive; at least 30s"`
	// Lease should be no shorter than the queue's ack wait, which `calferry provision` sets.
	Lease time.Duration `flag:"writer-lease" file:"writer.lease" default:"30s" help:"how long a calendar stays with a writer that shows no sign of life"`
	// Name of this process in reports; the host name when empty.
	Name string `flag:"writer-name" file:"writer.name" default:"" help:"name of this writer in reports; the host's when empty"`
}

const defaultWorkers = 64

// WithDefaults returns a copy in which zero fields have their defaults. The defaults of pace and turn are those of
// their packages.
func (c Config) WithDefaults() Config {
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	return c
}

// Validate says which setting cannot be used, and why.
func (c Config) Validate() error {
	if c.Workers < 1 {
		return fmt.Errorf("writer-workers is %d; use 1 or more", c.Workers)
	}
	if c.NearDays < 0 {
		return fmt.Errorf("quota-near-days is %d; use 1 or more", c.NearDays)
	}
	if c.Lease < 0 {
		return fmt.Errorf("writer-lease is %s; use the queue's ack wait, 30s", c.Lease)
	}
	if c.ProofAge < 0 {
		return fmt.Errorf("writer-proof-age is %s; use a minute, or 30s at least", c.ProofAge)
	}
	return nil
}
