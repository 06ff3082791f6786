package feed

import (
	"net/http"
	"strings"
)

// browserAgent is the shortest form that Outlook's published calendars were reported to accept.
const browserAgent = "Mozilla/5.0 (X11; Linux x86_64) Chrome/139.0.0.0"

// browserHosts refuse clients that do not look like a browser: since August 2025 Outlook answers them
// with a redirect to an error page that ends in status 500.
var browserHosts = []string{"outlook.office365.com", "outlook.office.com", "outlook.live.com"}

// setHeaders fills in what a server wants to know of a client.
func (c *Client) setHeaders(r *http.Request, req Request) {
	r.Header.Set("User-Agent", c.agent(r.URL.Hostname()))
	r.Header.Set("Accept", "text/calendar, text/plain;q=0.8, */*;q=0.5")
	r.Header.Set("Accept-Language", "en, *;q=0.5")
	r.Header.Set("Accept-Encoding", "gzip, deflate")
	if req.ETag != "" {
		r.Header.Set("If-None-Match", req.ETag)
	}
	if req.LastModified != "" {
		r.Header.Set("If-Modified-Since", req.LastModified)
	}
}

func (c *Client) agent(host string) string {
	for _, h := range browserHosts {
		if strings.EqualFold(host, h) {
			return browserAgent
		}
	}
	return c.cfg.UserAgent
}
