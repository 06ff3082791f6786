package natstest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is three clustered servers, enough for streams with three replicas.
type Cluster struct {
	tb    testing.TB
	nodes []*Server
}

// StartCluster runs three servers and waits until JetStream has elected its leader among all three.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	const size = 3
	var routes []*url.URL
	ports := make([]int, size)
	for i := range ports {
		ports[i] = freePort(tb)
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprintf("127.0.0.1:%d", ports[i])})
	}
	c := &Cluster{tb: tb}
	for i, port := range ports {
		opts := serverOptions(tb)
		opts.ServerName = fmt.Sprintf("node-%d", i)
		opts.Cluster.Name = "natstest"
		opts.Cluster.Host, opts.Cluster.Port = "127.0.0.1", port
		opts.Routes = routes
		s := &Server{tb: tb, opts: opts}
		c.nodes = append(c.nodes, s)
		tb.Cleanup(s.Stop)
	}
	for _, s := range c.nodes {
		s.start()
	}
	c.await("a JetStream leader that sees all nodes", func() bool {
		for _, s := range c.nodes {
			if s.srv.JetStreamIsLeader() {
				return len(s.srv.JetStreamClusterPeers()) == size
			}
		}
		return false
	})
	return c
}

// Connect opens a connection that knows all nodes and is closed when the test ends.
func (c *Cluster) Connect(options ...nats.Option) *nats.Conn {
	c.tb.Helper()
	urls := make([]string, 0, len(c.nodes))
	for _, s := range c.nodes {
		urls = append(urls, s.URL())
	}
	return connect(c.tb, strings.Join(urls, ","), options...)
}

// Node returns the i-th server (0..2), to be stopped and restarted.
func (c *Cluster) Node(i int) *Server { return c.nodes[i] }

// Leader returns the server that leads a stream, once there is one: an election may be under way.
func (c *Cluster) Leader(ctx context.Context, js jetstream.JetStream, stream string) *Server {
	c.tb.Helper()
	var leader *Server
	c.await("leader of stream "+stream, func() bool {
		st, err := js.Stream(ctx, stream)
		if err != nil {
			return false
		}
		for _, s := range c.nodes {
			if info := st.CachedInfo().Cluster; info != nil && s.opts.ServerName == info.Leader {
				leader = s
			}
		}
		return leader != nil
	})
	return leader
}

// await polls: servers of another package give no signal for these states.
func (c *Cluster) await(what string, ok func() bool) {
	c.tb.Helper()
	for deadline := time.Now().Add(startTimeout); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.tb.Fatalf("natstest: no %s after %s", what, startTimeout)
		}
	}
}
