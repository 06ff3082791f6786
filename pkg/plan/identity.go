package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Marks in keys.
const (
	contentPrefix = "content:"
	contentMark   = "|" + contentPrefix
	futureMark    = "|future"
	hourMark      = "|hour"
	periodMark    = "|period"
	startMark     = "|start"
	ownMark       = "|own"
)

func itoa(n int) string { return strconv.Itoa(n) }

// contentKey tells events apart by what they say, for those without a UID that means anything.
func contentKey(src *source) string {
	hash := sha256.New()
	for _, name := range []string{"DTSTART", "RRULE", "SUMMARY", "LOCATION", "RECURRENCE-ID"} {
		property := src.component.First(name)
		value := ""
		if property != nil {
			value = property.Param("TZID") + "\x00" + strings.TrimSpace(unescape(property.Value))
		}
		hash.Write([]byte(name + "\x00" + value + "\x00"))
	}
	return contentPrefix + hex.EncodeToString(hash.Sum(nil)[:16])
}

// key is the key of a master or single event.
func (m *mapper) key(src *source) string {
	if src.uid == "" || m.settings.Identity == calferryv1.Identity_IDENTITY_CONTENT {
		return m.uniqueKey(contentKey(src))
	}
	for at := range len(src.uid) {
		if src.uid[at] == '|' && m.byUID[src.uid[:at]] != nil {
			// It may read like the key of something that is made of the other UID.
			return m.uniqueKey(src.uid + "|" + contentKey(src))
		}
	}
	return src.uid
}

// newer orders versions of one event, the newest last.
func newer(a, b *source) int {
	return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.modified, b.modified), cmp.Compare(a.order, b.order))
}

// versions picks from events with one UID and no RECURRENCE-ID those that are meant: the newest version
// and, where versions do not differ but starts do, all of them: some feeds use a UID many times.
func versions(sources []*source) []*source {
	if len(sources) < 2 {
		return sources
	}
	slices.SortStableFunc(sources, newer)
	newest := sources[len(sources)-1].sequence
	byStart := map[string]*source{}
	for _, src := range sources {
		if src.sequence == newest {
			byStart[startText(src)] = src
		}
	}
	kept := make([]*source, 0, len(byStart))
	for _, src := range byStart {
		kept = append(kept, src)
	}
	slices.SortFunc(kept, func(a, b *source) int { return cmp.Compare(a.order, b.order) })
	return kept
}

func startText(src *source) string {
	start := src.component.First("DTSTART")
	if start == nil {
		return ""
	}
	return start.Param("TZID") + "\x00" + strings.ToUpper(strings.TrimSpace(start.Value))
}
