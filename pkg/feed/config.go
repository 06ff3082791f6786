package feed

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Config bounds what a Client does. The zero value of each field means its default.
type Config struct {
	// UserAgent is sent to servers that have no preset of their own. Default "Calferry (+repository)".
	UserAgent string
	// MaxBytes is the largest decoded body. Default 50 MiB.
	MaxBytes int64
	// MaxRatio is the largest ratio of decoded to received bytes, looked at beyond the first decoded MiB.
	// Default 100; calendars compress about 10 to 30 fold.
	MaxRatio int64
	// ConnectTimeout covers name resolution and connecting. Default 10 s; a TLS handshake gets as long again.
	ConnectTimeout time.Duration
	// HeaderTimeout is how long a server may take to begin its answer. Default 20 s.
	HeaderTimeout time.Duration
	// StallTimeout is how long a server may take for each KiB of a body. Default 30 s.
	StallTimeout time.Duration
	// TotalTimeout covers the whole fetch, from the first connection to the last byte. Default 120 s.
	TotalTimeout time.Duration
	// PerHost is how many fetches from one host run at once. Default 4.
	PerHost int
	// PerHostWait is how long a fetch waits for its place before it fails as Busy. Default 5 s.
	PerHostWait time.Duration
	// AllowedNets are networks that feeds may be read from although they are not public, on any port:
	// for servers at home. Link-local and cloud metadata addresses stay forbidden.
	AllowedNets []netip.Prefix
	// Ports that public servers may be asked on. Default 80 and 443.
	Ports []uint16
	// FeedDir is a directory whose files may be feeds of any subscription; empty: none.
	FeedDir string
	// Resolver looks names up. Default net.DefaultResolver.
	Resolver *net.Resolver
	// TLS roots and settings come from here when set; the client clones it.
	Transport *http.Transport
	// Now is the clock that HTTP dates are compared with. Default time.Now.
	Now func() time.Time
}

const defaultUserAgent = "Calferry (+https://github.com/calferry/calferry)"

// WithDefaults returns a copy in which zero fields have their defaults.
func (c Config) WithDefaults() Config {
	def(&c.UserAgent, defaultUserAgent)
	def(&c.MaxBytes, 50<<20)
	def(&c.MaxRatio, 100)
	def(&c.ConnectTimeout, 10*time.Second)
	def(&c.HeaderTimeout, 20*time.Second)
	def(&c.StallTimeout, 30*time.Second)
	def(&c.TotalTimeout, 120*time.Second)
	def(&c.PerHost, 4)
	def(&c.PerHostWait, 5*time.Second)
	if c.Ports == nil {
		c.Ports = []uint16{80, 443}
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate says which field cannot be used, and why.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, ok bool) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s must be greater than zero", name))
		}
	}
	positive("MaxBytes", c.MaxBytes > 0)
	positive("MaxRatio", c.MaxRatio > 0)
	positive("ConnectTimeout", c.ConnectTimeout > 0)
	positive("HeaderTimeout", c.HeaderTimeout > 0)
	positive("StallTimeout", c.StallTimeout > 0)
	positive("TotalTimeout", c.TotalTimeout > 0)
	positive("PerHost", c.PerHost > 0)
	positive("PerHostWait", c.PerHostWait > 0)
	for _, p := range c.AllowedNets {
		if !p.IsValid() {
			errs = append(errs, errors.New("AllowedNets holds an invalid network: write it like 192.168.1.0/24"))
		}
	}
	return errors.Join(errs...)
}
