package gcalsim

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

// Client is an OAuth client of a Google project; the leading digits of its id are the project's number.
type Client struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	// RedirectURIs are where a hosted client may send people back to, to the letter. A client without any is a desktop one,
	// which may name every http address of the loopback interface.
	RedirectURIs []string `json:"redirect_uris,omitempty"`
}

// AddClient makes an OAuth client known beside the one of the configuration, or changes it.
func (s *Sim) AddClient(c Client) {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	s.accounts.clients[c.ID] = c
}

func (c Client) mayReturnTo(redirect string) bool {
	if len(c.RedirectURIs) > 0 {
		return slices.Contains(c.RedirectURIs, redirect)
	}
	u, err := url.Parse(redirect)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
}
