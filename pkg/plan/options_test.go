package plan_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

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
		"UID:far\nDTSTART:20271119\nSUMMARY:Far\n\nUID:past\nDTSTART:20260110\nSUMMARY:Past\n\n" +
		"UID:exam\nDTSTART:20260320T090000Z\nDTEND:20260320T100000Z\nSUMMARY:Exam\nCATEGORIES:School,EXAM\nCOLOR:red\n\n" +
		"UID:met\nDTSTART:20260321T090000Z\nDTEND:20260321T100000Z\nSUMMARY:Met\nDESCRIPTION:Agenda\\nLast updated 12:03\\nBring tea\nORGANIZER;CN=Ada:mailto:ada@example.com"
	everything := []string{"alarmed", "bare", "day", "described", "exam", "far", "floating", "free", "hours", "located", "met", "past", "private", "series", "series|20260320"}
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
		"without description": {options: &calferryv1.Options{StripDescription: true}, written: []string{"described", "met"}},
		"a category's colour": {options: &calferryv1.Options{CategoryColors: []*calferryv1.CategoryColor{{Category: "exam", ColorId: "5"}}}, written: []string{"exam"}},
		"the colour it has":   {options: &calferryv1.Options{CategoryColors: []*calferryv1.CategoryColor{{Category: "School", ColorId: "11"}}}},
		"another category's":  {options: &calferryv1.Options{CategoryColors: []*calferryv1.CategoryColor{{Category: "Sport", ColorId: "5"}}}},
		"attendees":           {options: &calferryv1.Options{Attendees: true}, written: []string{"met"}},
		"a length for none":   {options: &calferryv1.Options{ZeroLengthMinutes: 30}, written: without("day", "exam", "far", "met", "past", "series", "series|20260320")},
		"noise":               {options: &calferryv1.Options{Noise: []string{`^last updated .*\n?`}}, written: []string{"met"}},
		"noise of no event":   {options: &calferryv1.Options{Noise: []string{"as of now"}}},
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

// Colours: of the event's categories the first that is listed, then the fixed one, then the feed's.
func TestColorsOfCategories(t *testing.T) {
	t.Parallel()
	colors := []*calferryv1.CategoryColor{{Category: "Exam", ColorId: "11"}, {Category: " straße", ColorId: "2"}, {Category: "exam", ColorId: "3"}, {Category: "bad", ColorId: "99"}}
	color := func(fixed, lines string) string {
		return body(t, &calferryv1.Options{ColorId: fixed, CategoryColors: colors}, lines).ColorID
	}
	require.Equal(t, "11", color("4", "CATEGORIES:Other,EXAM\nCOLOR:blue"))
	require.Equal(t, "2", color("4", "CATEGORIES:Other\nCATEGORIES:Straße,Exam"), "the feed's order counts")
	require.Equal(t, "4", color("4", "CATEGORIES:Other,Bad\nCOLOR:blue"))
	require.Equal(t, "9", color("", "CATEGORIES:Other\nCOLOR:royalblue"))
	require.Empty(t, color("", "CATEGORIES:examination"))
	many := "CATEGORIES:" + strings.Repeat("some category that is of no use,", 100) + strings.Repeat("x", 900) + ",y,Exam"
	require.Equal(t, "11", color("", many), "a category counts also where the list is too long to be kept")
}

func TestAttendeesAreText(t *testing.T) {
	t.Parallel()
	described := func(lines string) string {
		return body(t, &calferryv1.Options{Attendees: true}, lines).Description
	}
	const guests = "ORGANIZER;CN=\"Lovelace, Ada\":MAILTO:ada@example.com\n" +
		"ATTENDEE;CN=Grace ^'Amazing^'  Hopper;PARTSTAT=ACCEPTED;X-NUM-GUESTS=0:mailto:grace@example.com\n" +
		"ATTENDEE;PARTSTAT=DECLINED:mailto:alan@example.com\nATTENDEE;PARTSTAT=NEEDS-ACTION;CN=Room 4;EMAIL=room4@example.com:urn:uuid:1\n" +
		"ATTENDEE;CN=Nobody:invalid:nomail\nATTENDEE;CN=Again:mailto:GRACE@example.com\nATTENDEE:urn:uuid:2"
	const block = "Organiser: Lovelace, Ada (ada@example.com)\nAttendees:\nGrace \"Amazing\" Hopper (grace@example.com), accepted\n" +
		"alan@example.com, declined\nRoom 4 (room4@example.com), no answer\nNobody"
	require.Equal(t, block, described(guests))
	require.Equal(t, "Bring tea\n\n"+block, described("DESCRIPTION:Bring tea\n"+guests))
	require.Equal(t, "Bring tea\nhttps://example.com/a.pdf\n\n"+block, described("DESCRIPTION:Bring tea\nATTACH:https://example.com/a.pdf\n"+guests))
	require.Equal(t, "Bring <b>tea</b>\n\n"+strings.ReplaceAll(block, `"`, "&#34;"), described("X-ALT-DESC;FMTTYPE=text/html:Bring <b>tea</b>\n"+guests), "names are no markup")
	require.Equal(t, "Bring tea", described("DESCRIPTION:Bring tea"))
	require.Equal(t, "Bring tea", body(t, nil, "DESCRIPTION:Bring tea\n"+guests).Description, "not unless asked for")
	require.Empty(t, body(t, &calferryv1.Options{Attendees: true, StripDescription: true}, guests).Description)

	// What a feed says itself is cut for its guests by a little only, and they are counted whatever happens.
	var crowd strings.Builder
	for i := range 190 {
		crowd.WriteString("\nATTENDEE;CN=Guest of honour number " + strconv.Itoa(i) + ":mailto:guest" + strconv.Itoa(i) + "@example.com")
	}
	long := described("DESCRIPTION:" + strings.Repeat("word ", 3000) + crowd.String())
	require.LessOrEqual(t, utf8.RuneCountInString(long), 8192)
	own, list, _ := strings.Cut(long, "\n\n")
	require.Greater(t, utf8.RuneCountInString(own), 7000)
	lines := strings.Split(list, "\n")
	require.Equal(t, "and "+strconv.Itoa(190-(len(lines)-2))+" more", lines[len(lines)-1])
	require.LessOrEqual(t, utf8.RuneCountInString(described(crowd.String()[1:])), 8192)
	require.Contains(t, described(crowd.String()[1:]), " more")
}

func TestNoiseIsTakenOut(t *testing.T) {
	t.Parallel()
	noise := func(patterns ...string) *calferryv1.Options { return &calferryv1.Options{Noise: patterns} }
	said := func(o *calferryv1.Options, lines string) string { return body(t, o, lines).Description }
	updated := noise(`^last updated [\d:]+$\n?`, `\(fetched .*?\)`)
	require.Equal(t, "Agenda\nBring tea", said(updated, `DESCRIPTION:Agenda\nLast updated 12:03\nBring tea (fetched now)`))
	require.Empty(t, said(updated, `DESCRIPTION:Last updated 12:03`))
	require.Equal(t, "<p>Agenda</p>", said(updated, `X-ALT-DESC;FMTTYPE=text/html:<p>Agenda</p><p>Last updated 12:03</p>`), "tags stay whole")
	require.Equal(t, "<b>A &lt;1&gt;</b>", said(noise("x"), `X-ALT-DESC;FMTTYPE=text/html:<b>A &lt\;1&gt\;x</b>`))
	require.Equal(t, "Agenda", said(noise("last updated .*"), `DESCRIPTION:Agenda\nLast updated 12:03`+"\n"+
		`X-ALT-DESC;FMTTYPE=text/html:<p>Agenda</p><p>Last updated <b>12:03</b></p>`), "noise with tags in it: the plain text has none")
	require.Equal(t, "Bring tea\nhttps://example.com/12:03", said(noise(`\d+:\d+`), "DESCRIPTION:Bring tea\nATTACH:https://example.com/12:03"), "addresses are no noise")

	const both = `DESCRIPTION:hello Last updated 11` + "\n" + `X-ALT-DESC;FMTTYPE=text/html:<p>hello</p><p>Last updated 11</p>`
	require.Equal(t, "<p>hello</p>", said(noise("^Last updated .*"), both), "they say the same as they come")
	require.Empty(t, said(noise(".*"), both))
	require.Empty(t, said(noise(".*"), `X-ALT-DESC;FMTTYPE=text/html:<ul><li> <b>a</b> </li><li>b<br></li></ul>`))
	require.Equal(t, "<p>a</p><p></p>", said(noise("z"), `X-ALT-DESC;FMTTYPE=text/html:<p>a</p><p></p>`), "nothing is changed without noise")

	// Long descriptions end at the same word, however long the noise.
	long := strings.Repeat("word ", 3000)
	require.Equal(t, said(updated, "DESCRIPTION:(fetched at 1)"+long), said(updated, "DESCRIPTION:(fetched at 12:00:03)"+long))

	// What cannot be used is left out, and the rest is done.
	s := settings()
	s.Options = noise("(", "tea", "")
	p := desire(t, s, "UID:1\nDTSTART:20260310\nDESCRIPTION:tea (now)")
	require.Equal(t, plan.Apply, p.Action)
	require.Equal(t, "(now)", p.Events[0].Body.Description)
	require.Equal(t, []string{"bad-noise"}, p.Warnings())
}

func TestEventsWithoutLength(t *testing.T) {
	t.Parallel()
	s := settings()
	s.Options = &calferryv1.Options{ZeroLengthMinutes: 45}
	shown := func(lines string) []string {
		var list []string
		for _, e := range desire(t, s, lines).Events {
			list = append(list, show(&e))
		}
		return list
	}
	require.Equal(t, []string{"1 2026-03-10T09:00:00 Europe/Berlin to 2026-03-10T09:45:00"}, shown("UID:1\nDTSTART;TZID=Europe/Berlin:20260310T090000"))
	require.Equal(t, []string{"1 2026-03-10T09:00:00Z to 2026-03-10T09:45:00Z"}, shown("UID:1\nDTSTART:20260310T090000Z\nDTEND:20260310T090000Z"))
	require.Equal(t, []string{"1 2026-03-10T09:00:00Z to 2026-03-10T09:05:00Z"}, shown("UID:1\nDTSTART:20260310T090000Z\nDURATION:PT5M"))
	require.Equal(t, []string{"1 2026-03-10 to 2026-03-11"}, shown("UID:1\nDTSTART:20260310"))
	require.Len(t, shown("UID:1\nDTSTART:20260310T090000Z\nRRULE:FREQ=DAILY;COUNT=3\n\nUID:1\nRECURRENCE-ID:20260311T090000Z\nSUMMARY:"), 1, "an instance as long as its series is none")
	require.Equal(t, []string{
		"1 2026-03-10T09:00:00Z to 2026-03-10T10:00:00Z RDATE:20260312T090000Z", "1|20260311T090000Z|period 2026-03-11T09:00:00Z to 2026-03-11T09:45:00Z",
	}, shown("UID:1\nDTSTART:20260310T090000Z\nDURATION:PT1H\nRDATE;VALUE=PERIOD:20260311T090000Z/PT0S,20260312T090000Z/PT1H"))
	require.Equal(t, []string{"1 2026-03-10T09:00:00Z to 2026-03-10T09:45:00Z RDATE:20260311T090000Z"},
		shown("UID:1\nDTSTART:20260310T090000Z\nRDATE;VALUE=PERIOD:20260311T090000Z/20260311T090000Z"), "like its series")
	s.Options = nil
	require.Equal(t, []string{"1 2026-03-10T09:00:00Z to 2026-03-10T09:00:00Z"}, shown("UID:1\nDTSTART:20260310T090000Z"), "the writer gives the minute that Google asks for")
}

func TestCheckOptions(t *testing.T) {
	t.Parallel()
	many := func(n int) (list []string) {
		for i := range n {
			list = append(list, strconv.Itoa(i))
		}
		return list
	}
	color := func(pairs ...string) (list []*calferryv1.CategoryColor) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, &calferryv1.CategoryColor{Category: pairs[i], ColorId: pairs[i+1]})
		}
		return list
	}
	require.NoError(t, plan.CheckOptions(nil))
	require.NoError(t, plan.CheckOptions(&calferryv1.Options{
		Visibility: "confidential", Busy: "free", Reminders: "feed", DefaultZone: "Europe/Vienna", ColorId: "11", HorizonDays: 3650, ZeroLengthMinutes: 1440,
		CategoryColors: color("Exam", "1", "School", "11"), Noise: []string{"^a.*$"}, Attendees: true,
	}))
	for want, o := range map[string]*calferryv1.Options{
		"visibility":          {Visibility: "hidden"},
		"busy":                {Busy: "maybe"},
		"reminders":           {Reminders: "all"},
		"default_zone":        {DefaultZone: "Local"},
		"color_id":            {ColorId: "12"},
		"horizon_days":        {HorizonDays: 3651},
		"zero_length_minutes": {ZeroLengthMinutes: 1441},
		"noise":               {Noise: many(21)},
		"noise 2":             {Noise: []string{"fine", "("}},
		"noise 1":             {Noise: []string{" "}},
		"noise 4":             {Noise: []string{"a", "b", "c", "(x{1,30}){1,30}y"}},
		"noise 3":             {Noise: []string{"a", "b", strings.Repeat("c", 1001)}},
		"category_colors 1":   {CategoryColors: color("Exam", "")},
		"category_colors 2":   {CategoryColors: color("Exam", "1", " ", "2")},
		"category_colors 3":   {CategoryColors: color("Exam", "1", "School", "2", " EXAM", "2")},
		"filter 1":            {Filters: []*calferryv1.Filter{{Field: "summary", Match: calferryv1.FilterMatch_FILTER_MATCH_EQUALS}}},
		"filter 2": {Filters: []*calferryv1.Filter{
			{Mode: calferryv1.FilterMode_FILTER_MODE_EXCLUDE, Field: "summary", Match: calferryv1.FilterMatch_FILTER_MATCH_EQUALS},
			{Mode: calferryv1.FilterMode_FILTER_MODE_EXCLUDE, Field: "mood", Match: calferryv1.FilterMatch_FILTER_MATCH_EQUALS},
		}},
	} {
		err := plan.CheckOptions(o)
		var bad *plan.OptionError
		require.ErrorAs(t, err, &bad, want)
		require.Equal(t, want, bad.Option, err.Error())
	}
}

// However dear the patterns and long the descriptions, a plan ends: what there is no effort left for is written as it is.
func TestNoiseIsBounded(t *testing.T) {
	t.Parallel()
	var feed strings.Builder
	for i := range 40 {
		feed.WriteString("UID:" + strconv.Itoa(i) + "\nDTSTART:20260310\nDESCRIPTION:" + strings.Repeat("tea ", 4000) + "\n\n")
	}
	s := settings()
	for range 20 {
		s.Options = &calferryv1.Options{Noise: append(s.Options.GetNoise(), "(?-i:"+strings.Repeat("z", 280)+")")}
	}
	p := desire(t, s, feed.String())
	require.Equal(t, plan.Apply, p.Action)
	require.Len(t, p.Events, 40)
	require.Equal(t, []string{"noise-left"}, p.Warnings())
}
