package feed

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"
)

// errForbidden marks a refusal by a guard inside the errors of a dialer.
var errForbidden = errors.New("address not allowed")

// never are the addresses that no setting opens: link-local, where clouds keep the metadata and
// credentials of a machine; the metadata addresses outside of it (Azure's wire server, Alibaba, Oracle,
// the IPv6 one of AWS); and those that are no single host.
var never = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("255.255.255.255/32"),
	netip.MustParsePrefix("::/128"),
	netip.MustParsePrefix("fd00:ec2::/32"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("ff00::/8"),
}

// guard decides which addresses a dialer may connect to.
type guard struct {
	public  *ssrf.Guardian
	allowed []netip.Prefix
	// local opens private and loopback addresses and all ports.
	local bool
}

func newGuard(allowed []netip.Prefix, ports []uint16, local bool) *guard {
	return &guard{public: ssrf.New(ssrf.WithPorts(ports...)), allowed: allowed, local: local}
}

// control is a net.Dialer's Control: it sees each resolved address just before the socket connects.
func (g *guard) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: no IP address", errForbidden)
	}
	return g.check(ap)
}

func (g *guard) check(ap netip.AddrPort) error {
	addr := ap.Addr().WithZone("").Unmap()
	if contains(never, addr) {
		return fmt.Errorf("%w: %s is a link-local, metadata or group address", errForbidden, addr)
	}
	if g.local {
		return nil
	}
	if contains(g.allowed, addr) {
		// An allowed NAT64 prefix reaches all of IPv4, private networks included: judge what lies behind.
		v4, translated := behindNAT64(addr)
		if !translated {
			return nil
		}
		addr = v4
		if contains(never, addr) {
			return fmt.Errorf("%w: %s is a link-local, metadata or group address", errForbidden, addr)
		}
	}
	if err := g.public.SafeAddrPort(netip.AddrPortFrom(addr, ap.Port())); err != nil {
		return fmt.Errorf("%w: %w", errForbidden, err)
	}
	return nil
}

func behindNAT64(addr netip.Addr) (netip.Addr, bool) {
	if !ssrf.IPv6NAT64Prefix.Contains(addr) {
		return addr, false
	}
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:])), true
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
