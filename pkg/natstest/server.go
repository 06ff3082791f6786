// Package natstest runs real NATS servers with JetStream inside a test's process.
//
// Servers listen on a port of 127.0.0.1 that is theirs until the test ends, keep their data in the test's temporary
// folder, and are gone when the test ends. Restart keeps port and data, so clients reconnect and streams survive: a
// test sees what production sees. Nothing but tests may import this package.
package natstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startTimeout bounds how long a server may take to accept clients on a busy machine.
const startTimeout = time.Minute

// Server is one NATS server. Its methods are for the test's own goroutine.
type Server struct {
	tb   testing.TB
	opts *server.Options
	srv  *server.Server
}

// Option changes a server's options before its first start.
type Option func(*server.Options)

// Start runs a single server with JetStream.
func Start(tb testing.TB, options ...Option) *Server {
	tb.Helper()
	opts := serverOptions(tb)
	for _, o := range options {
		o(opts)
	}
	s := &Server{tb: tb, opts: opts}
	tb.Cleanup(s.Stop)
	s.start()
	return s
}

// Users makes the server ask for a name and a password, and lets each user do only what is listed.
func Users(users ...*server.User) Option {
	return func(o *server.Options) { o.Users = users }
}

// MaxPayload sets the largest message that the server takes, in bytes.
func MaxPayload(n int32) Option {
	return func(o *server.Options) { o.MaxPayload = n }
}

// URL is where clients connect to; it stays the same over a Restart.
func (s *Server) URL() string { return fmt.Sprintf("nats://%s:%d", s.opts.Host, s.opts.Port) }

// Connect opens a connection that reconnects for ever and fast, and is closed when the test ends.
func (s *Server) Connect(options ...nats.Option) *nats.Conn {
	s.tb.Helper()
	return connect(s.tb, s.URL(), options...)
}

// Stop shuts the server down and waits until it is gone. Its data stays. A stopped server may be stopped again.
func (s *Server) Stop() {
	if s.srv == nil {
		return
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.srv = nil
}

// Restart stops the server if it runs, and starts it on the same port and data.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.start()
}

func (s *Server) start() {
	s.tb.Helper()
	// The server writes into its options (the chosen port, for one), so each start gets its own copy.
	opts := s.opts.Clone()
	srv, err := server.NewServer(opts)
	if err != nil {
		s.tb.Fatalf("natstest: make the NATS server: %v", err)
	}
	s.srv = srv
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) {
		s.tb.Fatalf("natstest: the NATS server accepts no clients after %s", startTimeout)
	}
}

func serverOptions(tb testing.TB) *server.Options {
	tb.Helper()
	return &server.Options{
		Host: "127.0.0.1", Port: freePort(tb),
		NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: tb.TempDir(),
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30,
	}
}

func connect(tb testing.TB, url string, options ...nats.Option) *nats.Conn {
	tb.Helper()
	options = append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.Timeout(startTimeout),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // else nats.go prints to stderr
	}, options...)
	nc, err := nats.Connect(url, options...)
	if err != nil {
		tb.Fatalf("natstest: connect: %v", err)
	}
	tb.Cleanup(nc.Close)
	return nc
}
