package api

import (
	"time"

	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func checkInterval(d time.Duration) error {
	if d != 0 && (d < minInterval || d > maxInterval) {
		return invalid("interval is %s: choose one from %s to %s, or none to follow the feed", d, minInterval, maxInterval)
	}
	return nil
}

// checkOptions refuses options that the fetcher could not follow, naming the field.
func checkOptions(o *calferryv1.Options) error {
	if err := plan.CheckOptions(o); err != nil {
		return Error(CodeInvalidOption, "%w", err)
	}
	return nil
}

// isZone tells whether a text is the IANA name of a zone.
func isZone(zone string) bool {
	_, err := time.LoadLocation(zone)
	return err == nil && zone != "" && zone != "Local"
}
