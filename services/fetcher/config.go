package fetcher

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/calferry/calferry/pkg/feed"
)

// Config of the fetcher. The zero value of each field means its default.
type Config struct {
	Workers         int           `flag:"fetcher-workers" file:"fetcher.workers" default:"16" help:"feeds read at once"`
	DefaultInterval time.Duration `flag:"feed-interval" file:"feed.interval" default:"1h" help:"time between two reads of a feed, when neither its owner nor the feed names one"`
	FeedDir         string        `flag:"feed-dir" file:"feed.dir" default:"" help:"directory whose files may be feeds of any subscription"`
	AllowedNets     []string      `flag:"feed-allow-nets" file:"feed.allow_nets" default:"" help:"private networks that feeds may be read from, such as 192.168.1.0/24"`
	AllowedPorts    []string      `flag:"feed-allow-ports" file:"feed.allow_ports" default:"80,443" help:"ports that public servers may be asked on"`
	UserAgent       string        `flag:"feed-user-agent" file:"feed.user_agent" default:"" help:"what feeds' servers see as the client's name"`
	MaxMiB          int           `flag:"feed-max-mib" file:"feed.max_mib" default:"50" help:"largest feed, decoded, in MiB"`
	Timeout         time.Duration `flag:"feed-timeout" file:"feed.timeout" default:"2m" help:"longest time that one read of a feed may take"`
	PerHost         int           `flag:"feed-per-host" file:"feed.per_host" default:"4" help:"feeds read at once from one host"`
}

// WithDefaults returns a copy in which zero fields have their defaults.
func (c Config) WithDefaults() Config {
	c.Workers = cmp.Or(c.Workers, 16)
	c.DefaultInterval = cmp.Or(c.DefaultInterval, time.Hour)
	c.MaxMiB = cmp.Or(c.MaxMiB, 50)
	c.Timeout = cmp.Or(c.Timeout, maxFetch)
	c.PerHost = cmp.Or(c.PerHost, 4)
	if len(c.AllowedPorts) == 0 {
		c.AllowedPorts = []string{"80", "443"}
	}
	return c
}

// Validate says which setting cannot be used, and why.
func (c Config) Validate() error {
	var errs []error
	if c.Workers < 1 {
		errs = append(errs, errors.New("fetcher-workers must be at least 1"))
	}
	if c.DefaultInterval < time.Minute || c.DefaultInterval > 24*time.Hour {
		errs = append(errs, errors.New("feed-interval must be between 1m and 24h"))
	}
	if c.MaxMiB < 1 || c.MaxMiB > 1024 {
		errs = append(errs, errors.New("feed-max-mib must be between 1 and 1024"))
	}
	if c.Timeout < time.Second || c.Timeout > maxFetch {
		errs = append(errs, fmt.Errorf("feed-timeout must be between 1s and %s", maxFetch))
	}
	if c.PerHost < 1 {
		errs = append(errs, errors.New("feed-per-host must be at least 1"))
	}
	_, err := c.FeedClient()
	return errors.Join(append(errs, err)...)
}

// FeedClient returns the settings of the client that reads feeds under this configuration.
func (c Config) FeedClient() (feed.Config, error) {
	out := feed.Config{
		UserAgent: c.UserAgent, MaxBytes: int64(c.MaxMiB) << 20, PerHost: c.PerHost, FeedDir: c.FeedDir,
		TotalTimeout: c.Timeout,
	}
	var err error
	out.AllowedNets, out.Ports, err = feed.ParseRules(c.AllowedNets, c.AllowedPorts)
	return out, err
}
