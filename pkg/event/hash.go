package event

import (
	"crypto/sha256"
	"strings"
)

// ContentHash is the SHA-256 of the canonical body: equal hashes mean that nothing needs to be written.
func (b *Body) ContentHash() []byte {
	sum := sha256.Sum256(b.Canonical())
	return sum[:]
}

// ScheduleHash is the SHA-256 of start, zone and rule, exclusions left out. When it changes, Google
// forgets what was changed in single instances of the series.
func (b *Body) ScheduleHash() []byte {
	hash := sha256.New()
	for _, part := range []string{b.Start.Date, b.Start.DateTime, b.Start.TimeZone} {
		hash.Write([]byte(part))
		hash.Write([]byte{0})
	}
	for _, line := range b.Recurrence {
		if strings.HasPrefix(line, "EXDATE") {
			continue
		}
		hash.Write([]byte(line))
		hash.Write([]byte{0})
	}
	return hash.Sum(nil)
}

// RuleHash is the SHA-256 of the rule alone, without start, zone and dates; nil when the body has none. It tells
// whether a rule that Google refused is still the rule of the event.
func (b *Body) RuleHash() []byte {
	hash := sha256.New()
	found := false
	for _, line := range b.Recurrence {
		if strings.HasPrefix(line, "RRULE") {
			found = true
			hash.Write([]byte(line))
			hash.Write([]byte{0})
		}
	}
	if !found {
		return nil
	}
	return hash.Sum(nil)
}
