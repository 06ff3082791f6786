package gcal

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	// Zones must be there on images without a zone database: for the end of Google's day, and for events.
	_ "time/tzdata"
)

// maxRetryAfter bounds the wait that an answer may ask for. Google's longest window is a day.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the Retry-After header in both of its forms, seconds and a date. A date is measured
// against the server's own clock where the answer shows it. Google does not document that it sends the
// header; nothing depends on it.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(seconds > 0) { // also not a number
			return 0
		}
		return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if served, err := http.ParseTime(header.Get("Date")); err == nil {
		now = served
	}
	return clampWait(at.Sub(now))
}

func clampWait(d time.Duration) time.Duration { return min(max(d, 0), maxRetryAfter) }

// untilGoogleMidnight is how long Google's day still lasts: daily limits end at midnight in California.
func untilGoogleMidnight(now time.Time) time.Duration {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		pacific = time.FixedZone("PST", -8*60*60)
	}
	local := now.In(pacific)
	midnight := time.Date(local.Year(), local.Month(), local.Day()+1, 0, 0, 0, 0, pacific)
	return clampWait(midnight.Sub(now))
}
