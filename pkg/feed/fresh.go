package feed

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxAsked bounds every wait that a server may ask for.
const maxAsked = 24 * time.Hour

// retryAfter reads a Retry-After of seconds or of an HTTP date; 0 when there is none that makes sense.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		return seconds(n)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxAsked)
}

// freshFor reads how long the server calls its answer fresh: max-age, else Expires; 0 when it says
// nothing, or that the answer must not be kept.
func freshFor(h http.Header, now time.Time) time.Duration {
	age := time.Duration(-1)
	for _, field := range h.Values("Cache-Control") {
		for d := range strings.SplitSeq(field, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(d), "=")
			switch strings.ToLower(name) {
			case "no-store", "no-cache":
				return 0
			case "max-age":
				if n, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 64); err == nil {
					age = seconds(n)
				}
			}
		}
	}
	if age >= 0 {
		return age
	}
	at, err := http.ParseTime(h.Get("Expires"))
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxAsked)
}

func seconds(n int64) time.Duration {
	n = min(max(n, 0), int64(maxAsked/time.Second))
	return time.Duration(n) * time.Second
}

// validator returns a header's value if it is one that may be sent back: a short single line.
func validator(v string) string {
	if len(v) > 1024 {
		return ""
	}
	for i := range len(v) {
		if v[i] < ' ' || v[i] == 0x7f {
			return ""
		}
	}
	return v
}
