// Package natsconn is a service's connection to NATS: it reconnects for ever, and a request that the server
// refuses shows in the log and in readiness instead of only as a time-out.
package natsconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/calferry/calferry/pkg/config"
)

// Config says where NATS is and who connects.
type Config struct {
	URL         string        `flag:"nats-url" file:"nats.url" default:"nats://127.0.0.1:4222" help:"NATS servers, comma separated"`
	User        string        `flag:"nats-user" file:"nats.user" help:"user name"`
	Password    config.Secret `flag:"nats-password" file:"nats.password" help:"password"`
	Credentials string        `flag:"nats-credentials" file:"nats.credentials" help:"path of a NATS credentials file"`
	CA          string        `flag:"nats-ca" file:"nats.ca" help:"path of the certificate authority to trust"`
}

// refusalMemory is how long a refused request keeps the connection unready: longer than a scrape interval,
// so that it is seen.
const refusalMemory = time.Minute

// Conn is the connection. It is safe for concurrent use.
type Conn struct {
	*nats.Conn

	mu        sync.Mutex
	refusal   string
	refusedAt time.Time
}

// Connect dials NATS for the named service. Its inbox prefix is "_INBOX_<name>", so that permissions can
// give each service only its own answers. It fails when no server can be reached within ten seconds.
func Connect(ctx context.Context, cfg Config, name string, log *slog.Logger, opts ...nats.Option) (*Conn, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Conn{}
	all := []nats.Option{
		nats.Name("calferry " + name),
		nats.CustomInboxPrefix("_INBOX_" + name),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(false),
		nats.Timeout(10 * time.Second),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.refused(ctx, log, err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.WarnContext(ctx, "NATS connection lost; reconnecting", slog.Any("error", err))
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.InfoContext(ctx, "NATS connection is back") }),
	}
	if cfg.User != "" {
		all = append(all, nats.UserInfo(cfg.User, cfg.Password.Reveal()))
	}
	if cfg.Credentials != "" {
		all = append(all, nats.UserCredentials(cfg.Credentials))
	}
	if cfg.CA != "" {
		all = append(all, nats.RootCAs(cfg.CA))
	}
	nc, err := nats.Connect(cfg.URL, append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s (is it running? set --nats-url): %w", redact(cfg.URL), err)
	}
	c.Conn = nc
	return c, nil
}

func (c *Conn) refused(ctx context.Context, log *slog.Logger, err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		log.WarnContext(ctx, "NATS reported an error", slog.Any("error", err))
		return
	}
	log.ErrorContext(ctx, "NATS refused a request; compare the user's permissions with deploy/k8s", slog.Any("error", err))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal, c.refusedAt = err.Error(), time.Now()
}

// Ready tells why the connection cannot be worked with: it is down, or NATS refused a request within the
// last minute.
func (c *Conn) Ready(context.Context) error {
	if !c.IsConnected() {
		return errors.New("not connected to NATS")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal != "" && time.Since(c.refusedAt) < refusalMemory {
		return fmt.Errorf("NATS refused a request: %s", c.refusal)
	}
	return nil
}

// redact takes user names and passwords out of a server list.
func redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		scheme, rest, ok := strings.Cut(p, "://")
		if !ok {
			scheme, rest = "", p
		}
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = rest[at+1:]
		}
		parts[i] = rest
		if ok {
			parts[i] = scheme + "://" + rest
		}
	}
	return strings.Join(parts, ",")
}
