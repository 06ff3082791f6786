package feed

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	home := []netip.Prefix{netip.MustParsePrefix("192.168.1.0/24"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("0.0.0.0/0")}
	ports := []uint16{80, 443}
	strict, lan, local := newGuard(nil, ports, false), newGuard(home[:2], ports, false), newGuard(nil, ports, true)
	everything := newGuard(home, ports, false)

	for _, a := range []string{"8.8.8.8:443", "[2606:4700:4700::1111]:80"} {
		require.NoError(t, strict.control("", a, nil), a)
	}
	private := []string{
		"127.0.0.1:80", "10.1.2.3:443", "172.16.0.1:80", "192.168.2.1:80", "100.64.0.1:80", "198.18.0.1:80",
		"[::1]:80", "[::ffff:127.0.0.1]:80", "[::ffff:10.0.0.1]:443", "[fd12::1]:80", "[2002:7f00:1::]:80", "[2001:0:1::]:80",
	}
	for _, a := range private {
		require.ErrorIs(t, strict.control("", a, nil), errForbidden, a)
		require.ErrorIs(t, lan.control("", a, nil), errForbidden, a)
		require.NoError(t, local.control("", a, nil), a)
	}
	for _, a := range []string{
		"169.254.169.254:80", "[::ffff:169.254.169.254]:80", "168.63.129.16:80", "100.100.100.200:80", "192.0.0.192:80",
		"[fd00:ec2::254]:80", "[fe80::1%eth0]:80", "0.0.0.0:80", "[::]:80", "224.0.0.1:80", "[ff02::1]:80",
	} {
		for _, g := range []*guard{strict, lan, local, everything} {
			require.ErrorIs(t, g.control("", a, nil), errForbidden, a)
		}
	}
	require.ErrorIs(t, strict.control("", "8.8.8.8:6379", nil), errForbidden)
	require.NoError(t, lan.control("", "192.168.1.7:5232", nil))
	// A translated address is judged by what lies behind it.
	require.NoError(t, lan.control("", "[64:ff9b::808:808]:443", nil))
	require.ErrorIs(t, lan.control("", "[64:ff9b::7f00:1]:443", nil), errForbidden)
	require.ErrorIs(t, lan.control("", "[64:ff9b::a9fe:a9fe]:80", nil), errForbidden)
	require.ErrorIs(t, strict.control("", "[64:ff9b::808:808]:443", nil), errForbidden)
}

func TestRedirectToForbidden(t *testing.T) {
	t.Parallel()
	victim := serve(t, "127.0.0.1", body("secret of the neighbour"))
	_, port, err := net.SplitHostPort(victim.Listener.Addr().String())
	require.NoError(t, err)
	for _, to := range []string{
		"http://169.254.169.254/latest/meta-data/",
		"http://[::ffff:169.254.169.254]/",
		"http://[::ffff:127.0.0.1]:" + port + "/s3cret",
		"http://127.0.0.1:" + port + "/",
		"http://localhost:" + port + "/",
		"http://2130706433:" + port + "/",
		"file:///etc/passwd",
		"gopher://127.0.0.1/",
	} {
		s := serve(t, "127.0.0.2", http.RedirectHandler(to, http.StatusFound))
		c := open(t, Config{}, "127.0.0.2/32")
		text, _, err := fetch(t, c, named(s.URL))
		require.Error(t, err, to)
		require.Empty(t, text)
		var e *Error
		require.ErrorAs(t, err, &e)
		if !strings.Contains(to, "2130706433") { // that one may not resolve at all
			require.Equal(t, Refused, e.Kind, "%s: %v", to, err)
		}
	}
}

// names is a DNS server in memory that gives one answer after the other.
type names struct {
	answers [][4]byte
	asked   atomic.Int32
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go n.serve(server)
		return client, nil
	}}
}

func (n *names) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
			return
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			i := min(int(n.asked.Add(1)), len(n.answers)) - 1
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: n.answers[i]},
			}}
		}
		out, err := m.Pack()
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}

func TestNameChangesItsAnswer(t *testing.T) {
	t.Parallel()
	// One port at both addresses; at the second one somebody else may have it.
	var l net.Listener
	var port string
	for l == nil {
		good := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, calendar)
		}))
		var err error
		_, port, err = net.SplitHostPort(good.Listener.Addr().String())
		require.NoError(t, err)
		if l, err = net.Listen("tcp", "127.0.0.1:"+port); !errors.Is(err, syscall.EADDRINUSE) {
			require.NoError(t, err)
		}
	}
	reached := atomic.Bool{}
	victim := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) })} //nolint:gosec // test server
	go func() { _ = victim.Serve(l) }()
	t.Cleanup(func() { _ = victim.Close() })

	dns := &names{answers: [][4]byte{{127, 0, 0, 2}, {127, 0, 0, 1}}}
	c := open(t, Config{Resolver: dns.resolver()}, "127.0.0.2/32")
	url := "http://rebind.example:" + port + "/s3cret"
	text, _, err := fetch(t, c, named(url))
	require.NoError(t, err)
	require.Equal(t, calendar, text)
	_, _, err = fetch(t, c, named(url))
	fails(t, err, Refused)
	require.False(t, reached.Load())
	require.EqualValues(t, 2, dns.asked.Load())
}

func TestLocalFeed(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1", body(calendar))
	c := open(t, Config{})
	_, _, err := fetch(t, c, named(s.URL))
	fails(t, err, Refused)
	req := named(s.URL)
	req.Local = true
	text, _, err := fetch(t, c, req)
	require.NoError(t, err)
	require.Equal(t, calendar, text)
	// The connection that the local fetch left open serves nobody else.
	_, _, err = fetch(t, c, named(s.URL))
	fails(t, err, Refused)
}

func TestProxyIgnored(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	s := serve(t, "127.0.0.2", body(calendar))
	c := open(t, Config{Transport: http.DefaultTransport.(*http.Transport).Clone()}, "127.0.0.2/32")
	_, _, err := fetch(t, c, named(s.URL))
	require.NoError(t, err)
	require.Nil(t, c.guarded.Proxy)
}
