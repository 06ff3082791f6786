package alerts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nicholas-fedor/shoutrrr"
	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Message is what a receiver is told.
type Message struct {
	// Event is "opened", "resolved" or "test".
	Event    string
	Incident *calferryv1.Incident
	// Link leads to the console; empty when its address is not known.
	Link string
}

// title is the message in one line.
func (m Message) title() string {
	name := m.Incident.GetName()
	if m.Event == "test" {
		return "Calferry: this is a test"
	}
	what := map[calferryv1.AlertKind]string{
		calferryv1.AlertKind_ALERT_KIND_ERROR:      "in error",
		calferryv1.AlertKind_ALERT_KIND_RECONNECT:  "must be connected again",
		calferryv1.AlertKind_ALERT_KIND_GRANT_ENDS: "access ends soon",
		calferryv1.AlertKind_ALERT_KIND_HOLD:       "deletions wait for a decision",
		calferryv1.AlertKind_ALERT_KIND_THROTTLED:  "throttled for long",
		calferryv1.AlertKind_ALERT_KIND_STALE:      "no sync has finished",
	}[m.Incident.GetKind()]
	if m.Event == "resolved" {
		return fmt.Sprintf("Calferry: %s: over: %s", name, what)
	}
	return fmt.Sprintf("Calferry: %s: %s", name, what)
}

// body is what follows the title.
func (m Message) body() string {
	text := m.Incident.GetText()
	if m.Event == "resolved" {
		lasted := m.Incident.GetResolvedAt().AsTime().Sub(m.Incident.GetOpenedAt().AsTime())
		text = fmt.Sprintf("It lasted %s.", lasted.Round(time.Second))
	}
	if m.Link != "" {
		text += "\n" + m.Link
	}
	return text
}

// Receiver is told of incidents.
type Receiver interface {
	// Name is its kind and, where that is no secret, its host.
	Name() string
	// ID stays the same while its address does.
	ID() string
	// Send delivers a message. Its error holds no address and no secret.
	Send(ctx context.Context, m Message) error
}

func idOf(address string) string {
	sum := sha256.Sum256([]byte(address))
	return hex.EncodeToString(sum[:8])
}

// receivers makes those that the settings name.
func receivers(s Settings) ([]Receiver, error) {
	var all []Receiver
	if s.Webhook != "" {
		all = append(all, newWebhook(s.Webhook.Reveal(), s.WebhookSecret.Reveal()))
	}
	for i, address := range strings.Fields(s.Services.Reveal()) {
		r, err := newService(address)
		if err != nil {
			return nil, fmt.Errorf("alert-services: address %d cannot be used: look it up at https://shoutrrr.nickfedor.com", i+1)
		}
		all = append(all, r)
	}
	return all, nil
}

// service is a notification service that shoutrrr knows.
type service struct {
	id, name string
	titled   bool
	router   *router.ServiceRouter
}

// showsHost are the kinds whose address holds a host and not a token there.
func showsHost(kind string) bool { return slices.Contains([]string{"ntfy", "smtp", "gotify"}, kind) }

// takesTitle are the kinds that have a field for a title; others refuse one.
func takesTitle(kind string) bool {
	return slices.Contains([]string{"ntfy", "smtp", "gotify", "slack"}, kind)
}

func newService(address string) (*service, error) {
	sender, err := shoutrrr.NewSender(nil, address)
	if err != nil {
		return nil, errors.New("unknown or incomplete service")
	}
	kind, rest, _ := strings.Cut(address, "://")
	kind, _, _ = strings.Cut(strings.ToLower(kind), "+")
	name := kind
	if u, err := url.Parse(kind + "://" + rest); err == nil && showsHost(kind) && u.Hostname() != "" {
		name += " at " + u.Hostname()
	}
	return &service{id: idOf(address), name: name, titled: takesTitle(kind), router: sender}, nil
}

func (s *service) Name() string { return s.name }
func (s *service) ID() string   { return s.id }

// Send gives the message to the service. The library takes no context; it gives up by itself after 10 s.
func (s *service) Send(ctx context.Context, m Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, params := m.title()+"\n"+m.body(), types.Params{}
	if s.titled {
		text, params = m.body(), types.Params{"title": m.title()}
	}
	for _, err := range s.router.Send(text, &params) {
		if err != nil {
			return errors.New("the service did not take the message: " + safe(err))
		}
	}
	return nil
}

// safe tells of an error what cannot hold an address: its texts quote the address with its tokens.
func safe(err error) string {
	if failure, ok := errors.AsType[*url.Error](err); ok {
		if failure.Timeout() {
			return "it did not answer in time"
		}
		return "it could not be reached; check its address and that this machine reaches it"
	}
	return "check its address and tokens"
}
