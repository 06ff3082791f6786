//go:build deploy

package verify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
)

const patience = 60 * time.Second

// passwords stand for the Secret calferry-nats.
var passwords = map[string]string{
	"provision": "p-of-provision", "fetcher": "p-of-fetcher", "writer": "p-of-writer", "state": "p-of-state",
}

// cluster is three NATS servers in this process, run from the configuration that is deployed. Only addresses and
// folders differ.
type cluster struct {
	dir   string
	nodes []*server.Server
	url   string
	ca    string
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir()}
	c.certificates(t)
	for user, password := range passwords {
		t.Setenv(strings.ToUpper(user)+"_PASSWORD", password)
	}
	c.accounts(t, func(s string) string { return s })
	conf := string(must(os.ReadFile("../k8s/base/nats/nats.conf")))
	ports := map[string]string{}
	var urls []string
	for i := range 3 {
		ports[fmt.Sprintf("nats-%d.nats-peers:6222", i)] = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	}
	for i := range 3 {
		name := fmt.Sprintf("nats-%d", i)
		client := fmt.Sprintf("127.0.0.1:%d", freePort(t))
		text := conf
		for deployed, here := range map[string]string{
			"listen: 0.0.0.0:4222": "listen: " + client, "http: 0.0.0.0:8222": "http: 127.0.0.1:-1",
			"listen: 0.0.0.0:6222": "listen: " + ports[name+".nats-peers:6222"],
			"/data":                filepath.Join(c.dir, name), "/etc/nats-tls": c.dir,
		} {
			require.Contains(t, text, deployed)
			text = strings.ReplaceAll(text, deployed, here)
		}
		for deployed, here := range ports {
			require.Contains(t, text, deployed)
			text = strings.ReplaceAll(text, deployed, here)
		}
		file := filepath.Join(c.dir, name+".conf")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		t.Setenv("POD_NAME", name)
		opts, err := server.ProcessConfigFile(file)
		require.NoError(t, err)
		require.Equal(t, name, opts.ServerName)
		opts.NoSigs, opts.NoLog = true, true
		node, err := server.NewServer(opts)
		require.NoError(t, err)
		go node.Start()
		t.Cleanup(func() { node.Shutdown(); node.WaitForShutdown() })
		c.nodes = append(c.nodes, node)
		urls = append(urls, "tls://"+client)
	}
	c.url = strings.Join(urls, ",")
	eventually(t, "a JetStream leader that sees all nodes", func() bool {
		for _, n := range c.nodes {
			if n.JetStreamIsLeader() {
				return len(n.JetStreamClusterPeers()) == 3
			}
		}
		return false
	})
	return c
}

// accounts writes accounts.conf, changed.
func (c *cluster) accounts(t *testing.T, change func(string) string) {
	t.Helper()
	text := string(must(os.ReadFile("../k8s/base/nats/accounts.conf")))
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "accounts.conf"), []byte(change(text)), 0o600))
}

// certificates makes what the Secret calferry-nats-tls holds.
func (c *cluster) certificates(t *testing.T) {
	t.Helper()
	sign := func(tmpl, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
		return must(x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer))
	}
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(c.dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	valid := func(cn string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: cn},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
	}
	ca, caKey := valid("test CA"), must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	c.ca = file("ca.crt", "CERTIFICATE", sign(ca, ca, caKey, caKey))
	leaf, key := valid("nats"), must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	file("tls.crt", "CERTIFICATE", sign(leaf, ca, key, caKey))
	file("tls.key", "EC PRIVATE KEY", must(x509.MarshalECPrivateKey(key)))
}

// eventually waits for what other processes bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end, again := time.After(patience), time.NewTicker(50*time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-end:
			t.Fatal("waited in vain for " + what)
		case <-again.C:
		}
	}
}

func TestNATSConfigurationFitsTheStatefulSet(t *testing.T) {
	t.Setenv("POD_NAME", "nats-0")
	for user, password := range passwords {
		t.Setenv(strings.ToUpper(user)+"_PASSWORD", password)
	}
	s := newSet(must(decode(must(render(base)))))
	nats := s.pod("StatefulSet/nats")
	conf := string(must(os.ReadFile("../k8s/base/nats/nats.conf")))
	require.Len(t, regexp.MustCompile(`nats://nats-\d\.`+nats.object.(*apps.StatefulSet).Spec.ServiceName+`:6222`).FindAllString(conf, -1), int(*nats.replicas))
	for _, m := range nats.container["nats"].VolumeMounts {
		if m.Name != "config" && m.Name != "run" {
			require.Contains(t, conf, " "+m.MountPath, m.Name)
		}
	}
	for _, e := range nats.container["nats"].Env {
		if user, ok := strings.CutSuffix(e.Name, "_PASSWORD"); ok {
			require.Equal(t, strings.ToLower(user), e.ValueFrom.SecretKeyRef.Key)
		}
	}
	// The version of the image is the one that all tests run on.
	require.Contains(t, nats.container["nats"].Image, ":"+server.VERSION+"-")

	broken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(broken, "a.conf"), []byte(strings.Replace(
		string(must(os.ReadFile("../k8s/base/nats/accounts.conf"))), "allow_responses", "allow_response", 1)), 0o600))
	_, err := server.ProcessConfigFile(filepath.Join(broken, "a.conf"))
	require.ErrorContains(t, err, "allow_response")
}

// attempt does something on a connection and returns what the server said against it.
func (c *cluster) attempt(t *testing.T, user string, do func(*nats.Conn) error) error {
	t.Helper()
	said := make(chan error, 8)
	nc, err := nats.Connect(c.url, nats.RootCAs(c.ca), nats.UserInfo(user, passwords[user]),
		nats.CustomInboxPrefix("_INBOX_"+user), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { said <- err }))
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, do(nc))
	require.NoError(t, nc.Flush())
	// The server answers in order, and the client tells of errors on a goroutine of its own.
	select {
	case err := <-said:
		return err
	case <-time.After(300 * time.Millisecond):
		return nil
	}
}

func (c *cluster) requireRefusals(t *testing.T) {
	t.Helper()
	for user, subjects := range map[string][]string{
		"provision": {
			"changes.lane.sub", "fetch.sub", "$KV.ledger.sub.head", "$JS.API.STREAM.DELETE.CHANGES", "$JS.API.STREAM.PURGE.KV_ledger",
			"$JS.API.STREAM.MSG.GET.KV_accounts", "calferry.tokens", "subscribe >", "subscribe changes.>",
		},
		"fetcher": {
			"calferry.tokens", "$KV.accounts.one", "$KV.health.one", "$JS.API.STREAM.MSG.GET.KV_accounts", "$JS.API.STREAM.DELETE.FETCH",
			"$JS.API.STREAM.PURGE.KV_ledger", "$JS.API.CONSUMER.MSG.NEXT.CHANGES.workers", "$JS.API.CONSUMER.DELETE.FETCH.workers",
			"$JS.ACK.CHANGES.workers.1.1.1.1.1", "$JS.API.CONSUMER.CREATE.KV_accounts.mine", "$JS.API.STREAM.CREATE.MINE",
			"subscribe changes.>", "subscribe $KV.accounts.>", "subscribe _INBOX_writer.>", "subscribe calferry.tokens",
		},
		"writer": {
			"$KV.accounts.one", "$KV.subscriptions.one", "$KV.holds.one", "$JS.API.STREAM.MSG.GET.KV_accounts",
			"$JS.API.STREAM.MSG.GET.KV_subscriptions", "$JS.API.STREAM.PURGE.CHANGES", "$JS.API.CONSUMER.MSG.NEXT.FETCH.workers",
			"$JS.API.CONSUMER.DELETE.CHANGES.workers", "$JS.API.CONSUMER.CREATE.KV_accounts.mine", "$JS.API.STREAM.CREATE.MINE",
			"subscribe calferry.tokens", "subscribe report.>", "subscribe _INBOX_state.>", "subscribe $KV.subscriptions.>",
		},
		"state": {
			"changes.lane.sub", "report.sub", "$KV.ledger.sub.head", "$JS.API.STREAM.PURGE.KV_ledger", "$JS.API.STREAM.DELETE.CHANGES",
			"$JS.API.CONSUMER.MSG.NEXT.CHANGES.workers", "$JS.ACK.CHANGES.workers.1.1.1.1.1", "$JS.API.CONSUMER.DELETE.REPORTS.health",
			"$JS.API.CONSUMER.CREATE.CHANGES.mine", "$JS.API.STREAM.CREATE.MINE", "_INBOX_writer.forged",
			"subscribe fetch.>", "subscribe _INBOX_writer.>", "subscribe calferry.tokens",
		},
	} {
		require.GreaterOrEqual(t, len(subjects), 5)
		for _, s := range subjects {
			err := c.attempt(t, user, func(nc *nats.Conn) error {
				if subject, ok := strings.CutPrefix(s, "subscribe "); ok {
					_, err := nc.SubscribeSync(subject)
					return err
				}
				return nc.Publish(s, nil)
			})
			require.ErrorIs(t, err, nats.ErrPermissionViolation, "%s: %s", user, s)
			require.ErrorContains(t, err, strings.TrimPrefix(s, "subscribe "))
		}
		require.NoError(t, c.attempt(t, user, func(nc *nats.Conn) error { // the attempt itself is nothing to refuse
			_, err := nc.SubscribeSync("_INBOX_" + user + ".x")
			return err
		}))
	}
	_, err := nats.Connect(c.url, nats.RootCAs(c.ca), nats.UserInfo("writer", "wrong"))
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = nats.Connect(c.url, nats.RootCAs(c.ca))
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = nats.Connect(strings.ReplaceAll(c.url, "tls://", "nats://"), nats.UserInfo("writer", passwords["writer"]))
	require.Error(t, err, "without TLS")
}
