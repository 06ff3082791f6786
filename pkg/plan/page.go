package plan

import (
	"bytes"
	"html"
	"regexp"
	"strings"
)

var titleElement = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// pages are signs by which a body that is no calendar tells what it is.
var pages = []struct{ sign, what string }{
	{"cf-challenge", "a Cloudflare challenge page"},
	{"just a moment", "a Cloudflare challenge page"},
	{"captcha", "a page that asks for a captcha"},
	{"sign in", "a login page"},
	{"signin", "a login page"},
	{"log in", "a login page"},
	{"login", "a login page"},
	{"password", "a login page"},
}

// nameBody says to a person what a body is that is no calendar.
func nameBody(head []byte) string {
	head = bytes.TrimSpace(head)
	lower := strings.ToLower(string(head))
	switch {
	case len(head) == 0:
		return "the answer is empty: check the address of the feed"
	case strings.Contains(lower, "<html") || strings.Contains(lower, "<!doctype html"):
		what := "a web page"
		for _, page := range pages {
			if strings.Contains(lower, page.sign) {
				what = page.what
				break
			}
		}
		if title := titleElement.FindSubmatch(head); title != nil {
			if name := clean(strings.Join(strings.Fields(html.UnescapeString(string(title[1]))), " "), 60); name != "" {
				what += " (" + quote(name) + ")"
			}
		}
		return "the answer is " + what + ", not a calendar: the feed may need a login, or another address"
	case head[0] == '{' || head[0] == '[':
		return "the answer is JSON, not a calendar: check the address of the feed"
	case head[0] == '<':
		return "the answer is XML, not a calendar: check the address of the feed"
	case bytes.HasPrefix(head, []byte("%PDF")) || bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "the answer is a document or an archive, not a calendar: check the address of the feed"
	default:
		return "the answer does not begin with BEGIN:VCALENDAR: check the address of the feed"
	}
}
