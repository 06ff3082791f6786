package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// feedEvent is one UID of a random feed; its times are days of March and April 2026.
type feedEvent struct {
	title      string
	day, count int
	// changed instances, by their number: "" is cancelled.
	changed map[int]string
	// excluded instances.
	excluded map[int]bool
}

func dayText(n int) string { return time.Date(2026, 3, 10+n, 0, 0, 0, 0, time.UTC).Format("20060102") }

func render(events map[string]*feedEvent) string {
	var blocks []string
	for _, uid := range slices.Sorted(maps.Keys(events)) {
		e := events[uid]
		block := fmt.Sprintf("UID:%s\nDTSTART:%s\nSUMMARY:%s\n", uid, dayText(e.day), e.title)
		if e.count > 0 {
			block += fmt.Sprintf("RRULE:FREQ=DAILY;COUNT=%d\n", e.count)
		}
		for n := range e.count {
			if e.excluded[n] {
				block += "EXDATE;VALUE=DATE:" + dayText(e.day+n) + "\n"
			}
		}
		blocks = append(blocks, block)
		for n := range e.count {
			title, changed := e.changed[n]
			if !changed {
				continue
			}
			status := ""
			if title == "" {
				status = "STATUS:CANCELLED\n"
			}
			blocks = append(blocks, fmt.Sprintf("UID:%s\nRECURRENCE-ID;VALUE=DATE:%s\nDTSTART:%s\nSUMMARY:%s\n%s", uid, dayText(e.day+n), dayText(e.day+n), title, status))
		}
	}
	return strings.Join(blocks, "\n\n")
}

// edit changes the feed at random.
func edit(t *rapid.T, events map[string]*feedEvent) {
	uid := fmt.Sprintf("u%d", rapid.IntRange(0, 3).Draw(t, "uid"))
	e := events[uid]
	title := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "title")
	if e == nil {
		events[uid] = &feedEvent{title: title, day: rapid.IntRange(0, 5).Draw(t, "day"), count: rapid.SampledFrom([]int{0, 3, 4}).Draw(t, "count"), changed: map[int]string{}, excluded: map[int]bool{}}
		return
	}
	instance := rapid.IntRange(0, 3).Draw(t, "instance")
	switch rapid.IntRange(0, 8).Draw(t, "edit") {
	case 0:
		delete(events, uid)
	case 1:
		e.title = title
	case 2:
		e.day = rapid.IntRange(0, 5).Draw(t, "day")
	case 3:
		e.count = rapid.SampledFrom([]int{0, 3, 4}).Draw(t, "count")
	case 4, 5:
		e.changed[instance] = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "change")
	case 6:
		delete(e.changed, instance)
	case 7:
		e.excluded[instance] = !e.excluded[instance]
	case 8:
		other := fmt.Sprintf("u%d", rapid.IntRange(0, 7).Draw(t, "reissued"))
		if events[other] == nil {
			delete(events, uid)
			events[other] = e
		}
	}
}
