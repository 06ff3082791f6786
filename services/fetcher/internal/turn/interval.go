package turn

import "time"

const (
	// minInterval bounds what a feed may ask for; a person may ask for more, down to minWish.
	minInterval = 5 * time.Minute
	minWish     = 5 * time.Second
	maxInterval = 24 * time.Hour
	// maxFresh bounds what a server's cache headers may ask for: many servers are set to call every file
	// fresh for a day or a year.
	maxFresh = 6 * time.Hour
	// patientFailures is how many failures in a row are retried at the usual interval.
	patientFailures = 3
)

// interval returns how long to wait between two fetches, before jitter: the owner's wish, else the feed's,
// else what its server calls fresh if that is longer than the default.
func interval(wish, asked, fresh, usual time.Duration) time.Duration {
	switch {
	case wish > 0:
		return min(max(wish, minWish), maxInterval)
	case asked > 0:
		return min(max(asked, minInterval), maxInterval)
	default:
		return min(max(usual, min(fresh, maxFresh)), maxInterval)
	}
}

// retryInterval is the interval after a number of failures in a row: it doubles from the third one on, to
// 24 h, and is never shorter than what the server asked for.
func retryInterval(usual time.Duration, failures uint32, asked time.Duration) time.Duration {
	wait := usual
	for n := uint32(patientFailures); n < failures && wait < maxInterval; n++ {
		wait *= 2
	}
	return max(min(wait, maxInterval), min(asked, maxInterval))
}

func (t *turn) interval() time.Duration {
	var wish time.Duration
	if t.record != nil {
		wish = t.record.Value.GetInterval().AsDuration()
	}
	return interval(wish, t.feedInterval, t.fresh, t.DefaultInterval)
}
