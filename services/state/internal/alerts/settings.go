package alerts

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/calferry/calferry/pkg/config"
)

// minSecret is the least length of the webhook's secret, in bytes.
const minSecret = 16

// Settings say who is told, and of what.
type Settings struct {
	Webhook       config.Secret `flag:"alert-webhook" file:"state.alerts.webhook" default:"" help:"address that alerts are posted to as signed JSON"`
	WebhookSecret config.Secret `flag:"alert-webhook-secret" file:"state.alerts.webhook_secret" default:"" help:"secret that those posts are signed with; at least 16 characters"`
	Services      config.Secret `flag:"alert-services" file:"state.alerts.services" default:"" help:"addresses of notification services for shoutrrr, such as ntfy://ntfy.sh/topic, with spaces between them"`

	Throttled   int           `flag:"alert-throttled-syncs" file:"state.alerts.throttled_syncs" default:"6" help:"throttled syncs in a row that make an alert"`
	Stale       int           `flag:"alert-stale-intervals" file:"state.alerts.stale_intervals" default:"3" help:"intervals without a finished sync that make an alert"`
	GrantBefore time.Duration `flag:"alert-grant-before" file:"state.alerts.grant_before" default:"48h" help:"how long before a grant ends an alert is made"`
}

// WithDefaults fills in what is not set.
func (s Settings) WithDefaults() Settings {
	s.Throttled = cmp.Or(s.Throttled, 6)
	s.Stale = cmp.Or(s.Stale, 3)
	s.GrantBefore = cmp.Or(s.GrantBefore, 48*time.Hour)
	return s
}

// Validate returns what is wrong with Settings after WithDefaults. No error quotes an address.
func (s Settings) Validate() error {
	var errs []error
	if s.Webhook != "" {
		u, err := url.Parse(s.Webhook.Reveal())
		if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
			errs = append(errs, errors.New("alert-webhook: give an address that begins with https://"))
		}
		if len(s.WebhookSecret.Reveal()) < minSecret {
			errs = append(errs, fmt.Errorf("alert-webhook-secret: use at least %d characters, for example from `openssl rand -hex 24`", minSecret))
		}
	}
	if s.Throttled < 1 || s.Stale < 1 || s.GrantBefore < 0 {
		errs = append(errs, errors.New("alert-throttled-syncs and alert-stale-intervals must be at least 1, and alert-grant-before not negative"))
	}
	_, err := receivers(s)
	return errors.Join(append(errs, err)...)
}
