package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Options are part of what is desired: changing one writes the events that it touches, once, and no other.
func TestAnOptionTouchesWhatItIsAbout(t *testing.T) {
	t.Parallel()
	const feed = "UID:bare\nDTSTART:20260310T090000Z\nSUMMARY:Bare\n\n" +
		"UID:described\nDTSTART:20260311T090000Z\nSUMMARY:Described\nDESCRIPTION:long\n\n" +
		"UID:located\nDTSTART:20260312T090000Z\nSUMMARY:Located\nLOCATION:Hall\n\n" +
		"UID:alarmed\nDTSTART:20260313T090000Z\nSUMMARY:Alarmed\nBEGIN:VALARM\nACTION:DISPLAY\nTRIGGER:-PT5M\nEND:VALARM\n\n" +
		"UID:floating\nDTSTART:20260314T090000\nSUMMARY:Floating\n\n" +
		"UID:private\nDTSTART:20260315T090000Z\nSUMMARY:Private\nCLASS:PRIVATE\n\n" +
		"UID:free\nDTSTART:20260316T090000Z\nSUMMARY:Free\nTRANSP:TRANSPARENT\n\n" +
		"UID:day\nDTSTART:20260317\nSUMMARY:Day\n\n" +
		"UID:hours\nDTSTART:20260318T090000Z\nSUMMARY:Hours\nRRULE:FREQ=DAILY;BYHOUR=9,15\n\n" +
		"UID:series\nDTSTART:20260319\nSUMMARY:Series\nRRULE:FREQ=DAILY;COUNT=4\n\nUID:series\nRECURRENCE-ID:20260320\nDTSTART:20260321\nSUMMARY:Moved\n\n" +
		"UID:far\nDTSTART:20271119\nSUMMARY:Far\n\nUID:past\nDTSTART:20260110\nSUMMARY:Past"
	everything := []string{"alarmed", "bare", "day", "described", "far", "floating", "free", "hours", "located", "past", "private", "series", "series|20260320"}
	without := func(keys ...string) []string {
		return slices.DeleteFunc(slices.Clone(everything), func(key string) bool { return slices.Contains(keys, key) })
	}
	filter := func(mode calferryv1.FilterMode, field string, match calferryv1.FilterMatch, value string) []*calferryv1.Filter {
		return []*calferryv1.Filter{{Mode: mode, Field: field, Match: match, Value: value}}
	}
	const exclude = calferryv1.FilterMode_FILTER_MODE_EXCLUDE
	const contains, equals, regex = calferryv1.FilterMatch_FILTER_MATCH_CONTAINS, calferryv1.FilterMatch_FILTER_MATCH_EQUALS, calferryv1.FilterMatch_FILTER_MATCH_REGEX
	for name, c := range map[string]struct {
		options          *calferryv1.Options
		written, deleted []string
	}{
		"nothing":             {options: &calferryv1.Options{}},
		"the default, spelt":  {options: &calferryv1.Options{Reminders: "feed", HorizonDays: 730}},
		"default zone":        {options: &calferryv1.Options{DefaultZone: "Asia/Tokyo"}, written: []string{"floating"}},
		"title prefix":        {options: &calferryv1.Options{TitlePrefix: "[x] "}, written: everything},
		"title template":      {options: &calferryv1.Options{TitleTemplate: "{summary}{location}"}, written: []string{"located"}},
		"color":               {options: &calferryv1.Options{ColorId: "3"}, written: everything},
		"visibility":          {options: &calferryv1.Options{Visibility: "private"}, written: without("private")},
		"always busy":         {options: &calferryv1.Options{Busy: "busy"}, written: []string{"free"}},
		"always free":         {options: &calferryv1.Options{Busy: "free"}, written: without("free")},
		"days are free":       {options: &calferryv1.Options{AllDayFree: true}, written: []string{"day", "far", "past", "series", "series|20260320"}},
		"no reminders":        {options: &calferryv1.Options{Reminders: "none"}, written: []string{"alarmed"}},
		"calendar reminders":  {options: &calferryv1.Options{Reminders: "default"}, written: everything},
		"without description": {options: &calferryv1.Options{StripDescription: true}, written: []string{"described"}},
		"without location":    {options: &calferryv1.Options{StripLocation: true}, written: []string{"located"}},
		"shorter horizon":     {options: &calferryv1.Options{HorizonDays: 365}, written: []string{"hours"}},
		"filter: summary":     {options: &calferryv1.Options{Filters: filter(exclude, "summary", contains, "BARE")}, deleted: []string{"bare"}},
		"filter: description": {options: &calferryv1.Options{Filters: filter(exclude, "description", equals, "long")}, deleted: []string{"described"}},
		"filter: location":    {options: &calferryv1.Options{Filters: filter(exclude, "location", regex, "^h.ll$")}, deleted: []string{"located"}},
		"filter: uid":         {options: &calferryv1.Options{Filters: filter(exclude, "uid", equals, "far")}, deleted: []string{"far"}},
		"filter: an instance": {options: &calferryv1.Options{Filters: filter(exclude, "summary", equals, "Moved")}, deleted: []string{"series|20260320"}},
		"window ahead":        {options: &calferryv1.Options{WindowFutureDays: 100}},
		"window behind":       {options: &calferryv1.Options{WindowPastDays: 10}},
		"past events go":      {options: &calferryv1.Options{DropPast: true}},
		"the feed wins":       {options: &calferryv1.Options{FeedWins: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settings()
			s.HorizonDays = 0 // the options' own
			w := known(t, s, feed)
			s.Options = c.options
			d := diff(t, w, s, feed)
			var written, deleted []string
			for _, change := range d.Changes {
				if change.GetOp() == calferryv1.Op_OP_DELETE {
					deleted = append(deleted, change.GetKey())
				} else {
					written = append(written, change.GetKey())
				}
			}
			slices.Sort(written)
			slices.Sort(deleted)
			require.Equal(t, c.written, written)
			require.Equal(t, c.deleted, deleted)
			require.Empty(t, d.Held)
			w.apply(d.Changes, func() outcome { return done })
			require.Empty(t, diff(t, w, s, feed).Changes, "written once")
		})
	}
}

// What lies outside of the window is not written, and not deleted when it is known.
func TestTheWindowLeavesAlone(t *testing.T) {
	t.Parallel()
	const feed = "UID:old\nDTSTART:20260101T090000Z\n\nUID:now\nDTSTART:20260310T090000Z\n\nUID:far\nDTSTART:20270310T090000Z"
	s := settings()
	s.Options = &calferryv1.Options{WindowPastDays: 7, WindowFutureDays: 30}
	require.Equal(t, []string{"+now"}, ops(diff(t, newWorld(), s, feed)))
	w := known(t, settings(), feed)
	require.Empty(t, ops(diff(t, w, s, feed)))
	require.Equal(t, []string{"-now"}, ops(diff(t, w, s, strings.Replace(feed, "UID:now\nDTSTART:20260310T090000Z", "UID:other\nDTSTART:20250310T090000Z", 1))), "what is inside is deleted by its absence")
}

// Including and excluding filters of every field: included by one, and excluded by none.
func TestFiltersTogether(t *testing.T) {
	t.Parallel()
	include := func(field, value string) *calferryv1.Filter {
		return &calferryv1.Filter{Mode: calferryv1.FilterMode_FILTER_MODE_INCLUDE, Field: field, Value: value}
	}
	exclude := func(field, value string) *calferryv1.Filter {
		return &calferryv1.Filter{Mode: calferryv1.FilterMode_FILTER_MODE_EXCLUDE, Field: field, Value: value}
	}
	const feed = "UID:a\nDTSTART:20260310\nSUMMARY:Team\\, home\nCATEGORIES:Sport\nSTATUS:CONFIRMED\n\nUID:b\nDTSTART:20260310\nSUMMARY:Team away\nLOCATION:Elsewhere\nCATEGORIES:Sport,Away\n\n" +
		"UID:c\nDTSTART:20260310\nSUMMARY:Dinner\nDESCRIPTION:with the team"
	for _, c := range []struct {
		filters []*calferryv1.Filter
		want    []string
	}{
		{nil, []string{"a", "b", "c"}},
		{[]*calferryv1.Filter{include("summary", "team"), exclude("categories", "away")}, []string{"a"}},
		{[]*calferryv1.Filter{include("summary", "team, home")}, []string{"a"}},
		{[]*calferryv1.Filter{include("summary", "team"), include("description", "team")}, []string{"a", "b", "c"}},
		{[]*calferryv1.Filter{include("categories", "sport"), exclude("location", "elsewhere")}, []string{"a"}},
		{[]*calferryv1.Filter{exclude("status", "confirmed")}, []string{}},
		{[]*calferryv1.Filter{include("uid", "b"), include("uid", "c"), exclude("description", "team")}, []string{"b"}},
	} {
		s := settings()
		s.Options = &calferryv1.Options{Filters: c.filters}
		p := desire(t, s, feed)
		require.Equal(t, c.want, keys(p))
		require.Equal(t, plan.Apply, p.Action, "filtered is not empty")
	}
}
