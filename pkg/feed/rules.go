package feed

import (
	"fmt"
	"net/netip"
	"strconv"
)

// ParseRules reads the settings feed-allow-nets and feed-allow-ports, for Config.AllowedNets and Config.Ports.
func ParseRules(networks, ports []string) (nets []netip.Prefix, allowed []uint16, err error) {
	for _, text := range networks {
		prefix, err := network(text)
		if err != nil {
			return nil, nil, fmt.Errorf("feed-allow-nets: %q is not a network: write it like 192.168.1.0/24", text)
		}
		nets = append(nets, prefix)
	}
	for _, text := range ports {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return nil, nil, fmt.Errorf("feed-allow-ports: %q is not a port", text)
		}
		allowed = append(allowed, uint16(port))
	}
	return nets, allowed, nil
}

func network(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}
