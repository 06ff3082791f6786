// Package embednats runs a NATS server with JetStream inside the process: the durable store of a
// self-hosted Calferry. It listens on no port unless asked to.
package embednats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/calferry/calferry/pkg/natsconn"
)

// Config says where the server keeps its data and whether it listens.
type Config struct {
	// Listen is host:port for other processes; empty for none.
	Listen string `flag:"nats-listen" file:"nats.listen" help:"host:port on which the embedded NATS also listens, for the nats tool or more writers"`
	// Monitor is host:port of the monitoring endpoints; empty for none.
	Monitor string `flag:"nats-monitor" file:"nats.monitor" help:"host:port of the embedded NATS monitoring pages"`
}

// readyWithin bounds the start; recovering a large store takes seconds.
const readyWithin = 2 * time.Minute

// Server is a running server.
type Server struct {
	ns  *server.Server
	log *slog.Logger
}

// Start runs a server over dir. It fails when a port is taken, naming the flag, or when the store cannot be
// recovered.
func Start(cfg Config, dir string, log *slog.Logger) (*Server, error) {
	opts := &server.Options{
		ServerName: "calferry",
		JetStream:  true,
		StoreDir:   dir,
		DontListen: cfg.Listen == "",
		NoSigs:     true,
		MaxPayload: 1 << 20,
		// A ChangeSet is up to 900 KiB and each worker may be sent one at the same time.
		MaxPending: 256 << 20,
		// Bounds what a power cut can lose; a crash of the process alone loses nothing.
		SyncInterval: 10 * time.Second,
	}
	var err error
	if cfg.Listen != "" {
		if opts.Host, opts.Port, err = splitListen("--nats-listen", cfg.Listen); err != nil {
			return nil, err
		}
	}
	if cfg.Monitor != "" {
		if opts.HTTPHost, opts.HTTPPort, err = splitListen("--nats-monitor", cfg.Monitor); err != nil {
			return nil, err
		}
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS: %w", err)
	}
	ns.SetLoggerV2(natsLog{log}, false, false, false)
	go ns.Start()
	if !ns.ReadyForConnections(readyWithin) {
		ns.Shutdown()
		return nil, fmt.Errorf("embedded NATS did not start over %s: another program may use the port, or the store is damaged (its log says more with --log-level debug)", dir)
	}
	return &Server{ns: ns, log: log}, nil
}

// splitListen parses host:port and makes sure that the port is free, because the server itself only logs it.
func splitListen(flag, addr string) (string, int, error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%s %q: use host:port", flag, addr)
	}
	port, err := strconv.Atoi(p)
	if err != nil {
		return "", 0, fmt.Errorf("%s %q: the port is no number", flag, addr)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return "", 0, fmt.Errorf("%s %s: the address is taken or not ours; choose another: %w", flag, addr, err)
	}
	return host, port, l.Close()
}

// Connect opens a connection inside the process.
func (s *Server) Connect(ctx context.Context, name string) (*natsconn.Conn, error) {
	return natsconn.Connect(ctx, natsconn.Config{URL: "nats://in-process"}, name, s.log, nats.InProcessServer(s.ns))
}

// Stop shuts the server down and waits until its files are closed.
func (s *Server) Stop(ctx context.Context) error {
	s.ns.Shutdown()
	done := make(chan struct{})
	go func() { s.ns.WaitForShutdown(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("embedded NATS did not stop in time")
	}
}

// natsLog passes the server's log on: its notices are our debug lines.
type natsLog struct{ log *slog.Logger }

func (l natsLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l natsLog) Warnf(format string, v ...any)   { l.write(slog.LevelWarn, format, v) }
func (l natsLog) Fatalf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l natsLog) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l natsLog) Debugf(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }
func (l natsLog) Tracef(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }

func (l natsLog) write(level slog.Level, format string, v []any) {
	l.log.Log(context.Background(), level, "NATS: "+fmt.Sprintf(format, v...))
}
