package plan_test

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const plain = "UID:1\nDTSTART:20260310T090000Z\nDTEND:20260310T100000Z\n"

func body(t *testing.T, options *calferryv1.Options, lines string) event.Body {
	t.Helper()
	s := settings()
	s.Options = options
	p := desire(t, s, plain+lines)
	require.Len(t, p.Events, 1)
	return p.Events[0].Body
}

func TestText(t *testing.T) {
	t.Parallel()
	b := body(t, nil, `SUMMARY: a\, b\; c\\n d \x `+"\x07\nDESCRIPTION:one\\ntwo\\Nthree\\\\\\, four\nLOCATION:Cafe\u0301")
	require.Equal(t, `a, b; c\n d \x`, b.Summary)
	require.Equal(t, "one\ntwo\nthree\\, four", b.Description)
	require.Equal(t, "Café", b.Location)

	long := body(t, nil, "SUMMARY:"+strings.Repeat("ä", 2_000)+"\nDESCRIPTION:"+strings.Repeat("ö", 20_000)+"\nLOCATION:"+strings.Repeat("x", 1_024))
	require.Equal(t, 1_024, utf8.RuneCountInString(long.Summary))
	require.True(t, strings.HasSuffix(long.Summary, "ä…"))
	require.Equal(t, 8_192, utf8.RuneCountInString(long.Description))
	require.Len(t, long.Location, 1_024)
}

func TestFields(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"Tomato": "4", "red": "11", "blue": "9", "darkgreen": "10", "#ff0000": "", "nocolor": ""} {
		require.Equal(t, id, body(t, nil, "COLOR:"+name).ColorID, name)
	}
	none := body(t, nil, "")
	require.Equal(t, "opaque", none.Transparency)
	require.Equal(t, "default", none.Visibility)
	require.Equal(t, "confirmed", none.Status)
	require.Equal(t, &event.Reminders{}, none.Reminders)
	require.Empty(t, none.ColorID)
	require.Nil(t, none.Source)

	require.Equal(t, "transparent", body(t, nil, "X-MICROSOFT-CDO-BUSYSTATUS:FREE").Transparency)
	require.Equal(t, "opaque", body(t, nil, "X-MICROSOFT-CDO-BUSYSTATUS:FREE\nTRANSP:OPAQUE").Transparency)
	require.Equal(t, "private", body(t, nil, "CLASS:private").Visibility)
	require.Equal(t, "default", body(t, nil, "CLASS:PUBLIC").Visibility)
	require.Equal(t, "default", body(t, nil, "CLASS:X-ODD").Visibility)
	require.Equal(t, []string{"A", "B,C", "D"}, body(t, nil, "CATEGORIES:A,B\\,C,,A\nCATEGORIES:D").Categories)
	require.Less(t, len(strings.Join(body(t, nil, "CATEGORIES:"+strings.Repeat("abcdefghi,", 500)+strings.Repeat("x", 900)+","+strings.Repeat("y", 900)).Categories, ",")), 1_024)

	require.Equal(t, &event.Source{Title: "Team", URL: "https://example.org/a?b=1"}, body(t, nil, "URL;VALUE=URI:https://example.org/a?b=1").Source)
	mail := body(t, nil, "URL:mailto:a@example.org\nDESCRIPTION:text")
	require.Nil(t, mail.Source)
	require.Equal(t, "text\nmailto:a@example.org", mail.Description)

	require.Equal(t, "52.5,13.4", body(t, nil, "GEO:52.5;13.4").Location)
	require.Empty(t, body(t, nil, "GEO:north;13.4").Location)
	require.Equal(t, "https://meet.example.org/x", body(t, nil, "CONFERENCE;VALUE=URI:https://meet.example.org/x\nGEO:52.5;13.4").Location)
	meeting := body(t, nil, "LOCATION:Room\nX-GOOGLE-CONFERENCE:https://meet.example.org/x\nDESCRIPTION:see https://meet.example.org/y\nX-MICROSOFT-SKYPETEAMSMEETINGURL:https://meet.example.org/y")
	require.Equal(t, "Room", meeting.Location)
	require.Equal(t, "see https://meet.example.org/y\nhttps://meet.example.org/x", meeting.Description)
	require.Equal(t, "https://example.org/a.pdf", body(t, nil, "ATTACH:https://example.org/a.pdf\nATTACH;VALUE=BINARY;ENCODING=BASE64:AAAA\nATTACH:CID:x").Description)
}

func TestRichText(t *testing.T) {
	t.Parallel()
	const rich = `X-ALT-DESC;FMTTYPE=text/html:<html><body onload=x><script>alert(1)</script><p>Hello <b>you</b> <a href="https://example.org" onclick="y">here</a><img src=z></p></body></html>` + "\n"
	const want = `<p>Hello <b>you</b> <a href="https://example.org">here</a></p>`
	require.Equal(t, want, body(t, nil, rich).Description)
	require.Equal(t, want, body(t, nil, rich+"DESCRIPTION:Hello you here\\n").Description)
	require.Equal(t, "Something else", body(t, nil, rich+"DESCRIPTION:Something else").Description)
	require.NotContains(t, body(t, nil, `X-ALT-DESC;FMTTYPE=text/html:<a href="javascript:alert(1)">x</a>`).Description, "javascript")
	require.Empty(t, body(t, nil, "X-ALT-DESC;FMTTYPE=text/html:<p></p>").Description)
}

// What is too long is cut, never left out and never within a tag.
func TestLongRichText(t *testing.T) {
	t.Parallel()
	const length = 8192
	whole := func(text string) {
		t.Helper()
		require.LessOrEqual(t, utf8.RuneCountInString(text), length)
		require.Greater(t, utf8.RuneCountInString(text), length-100)
		var open []string
		for _, tag := range regexp.MustCompile(`</?[a-z]+[^<>]*>`).FindAllString(text, -1) {
			name, _, _ := strings.Cut(strings.Trim(tag, "</>"), " ")
			if !strings.HasPrefix(tag, "</") {
				open = append(open, name)
				continue
			}
			require.Equal(t, open[len(open)-1], name)
			open = open[:len(open)-1]
		}
		require.Empty(t, open)
		require.Equal(t, strings.Count(text, "<"), strings.Count(text, ">"))
		require.NotRegexp(t, `&[a-z#0-9]*…`, text)
	}
	const link = `<p><b>Agenda &amp\; <a href="https://example.org/some/where">here</a></b></p>`
	const rich, styled = "X-ALT-DESC;FMTTYPE=text/html:", "STYLED-DESCRIPTION;FMTTYPE=text/html:"
	for n := 0; n < 90; n += 7 {
		text := strings.Repeat("x", n) + strings.Repeat(link, 200)
		long := body(t, nil, rich+text).Description
		whole(long)
		require.Contains(t, long, "…")
		whole(body(t, nil, "DESCRIPTION:"+text).Description)
	}
	whole(body(t, nil, styled+strings.Repeat("<b>", 3000)+"deep").Description)
	whole(body(t, nil, styled+strings.Repeat("<ul><li>", 100)+strings.Repeat("ä", 10_000)).Description)
	require.Equal(t, strings.Repeat("1 < 2 ", 1365)+"1…", body(t, nil, "DESCRIPTION:"+strings.Repeat("1 < 2 ", 3000)).Description, "no tags")

	plain := strings.Repeat("Agenda & here", 200)
	require.Equal(t, plain, body(t, nil, rich+strings.Repeat(link, 200)+"\nDESCRIPTION:"+plain).Description, "the text says it all")

	listed := body(t, &calferryv1.Options{Attendees: true}, rich+strings.Repeat(link, 200)+"\nORGANIZER:mailto:o@example.org\nATTENDEE:mailto:a@example.org").Description
	require.LessOrEqual(t, utf8.RuneCountInString(listed), length)
	require.True(t, strings.HasPrefix(listed, "<p><b>Agenda"))
	require.True(t, strings.HasSuffix(listed, "</p>\n\nOrganiser: o@example.org\nAttendees:\na@example.org"), listed[len(listed)-200:])
}

func TestAlarms(t *testing.T) {
	t.Parallel()
	alarm := func(lines string) string { return "BEGIN:VALARM\nACTION:DISPLAY\n" + lines + "\nEND:VALARM\n" }
	minutes := func(t *testing.T, lines string) []int {
		t.Helper()
		list := []int{}
		for _, one := range body(t, nil, lines).Reminders.Overrides {
			list = append(list, one.Minutes)
		}
		return list
	}
	require.Equal(t, []int{10}, minutes(t, alarm("TRIGGER:-PT10M")+alarm("TRIGGER;RELATED=START:-PT10M")))
	require.Equal(t, []int{0}, minutes(t, alarm("TRIGGER:PT0S")))
	require.Equal(t, []int{30}, minutes(t, alarm("TRIGGER;RELATED=END:-PT90M")))
	require.Equal(t, []int{60}, minutes(t, alarm("TRIGGER;VALUE=DATE-TIME:20260310T080000Z")))
	require.Equal(t, []int{10_080}, minutes(t, alarm("TRIGGER:-P1W")))
	require.Empty(t, minutes(t, alarm("TRIGGER:-P5W")+alarm("TRIGGER:PT5M")+alarm("TRIGGER:soon")+alarm("DESCRIPTION:none")))
	require.Empty(t, minutes(t, "RRULE:FREQ=DAILY\n"+alarm("TRIGGER;VALUE=DATE-TIME:20260310T080000Z")))
	require.Empty(t, minutes(t, "BEGIN:VALARM\nACTION:NONE\nTRIGGER:-PT5M\nEND:VALARM"))
	require.Equal(t, []int{1, 2, 3, 4, 5}, minutes(t, alarm("TRIGGER:-PT6M")+alarm("TRIGGER:-PT5M")+alarm("TRIGGER:-PT4M")+alarm("TRIGGER:-PT3M")+alarm("TRIGGER:-PT2M")+alarm("TRIGGER:-PT1M")))

	require.Equal(t, &event.Reminders{}, body(t, &calferryv1.Options{Reminders: "none"}, alarm("TRIGGER:-PT6M")).Reminders)
	require.Equal(t, &event.Reminders{UseDefault: true}, body(t, &calferryv1.Options{Reminders: "default"}, alarm("TRIGGER:-PT6M")).Reminders)
	require.Len(t, body(t, &calferryv1.Options{Reminders: "feed"}, alarm("TRIGGER:-PT6M")).Reminders.Overrides, 1)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	const lines = "SUMMARY:S\nLOCATION:L\nDESCRIPTION:D\nCLASS:PRIVATE\nTRANSP:OPAQUE\nURL:mailto:x@example.org"
	b := body(t, &calferryv1.Options{
		TitlePrefix: "[x] ", TitleTemplate: "{summary} @ {location}", ColorId: "4", Visibility: "public", Busy: "free", StripDescription: true, StripLocation: true,
	}, lines)
	require.Equal(t, "[x] S @ L", b.Summary)
	require.Equal(t, "4", b.ColorID)
	require.Equal(t, "public", b.Visibility)
	require.Equal(t, "transparent", b.Transparency)
	require.Empty(t, b.Description)
	require.Empty(t, b.Location)
	require.Equal(t, "opaque", body(t, &calferryv1.Options{Busy: "busy"}, "TRANSP:TRANSPARENT").Transparency)

	s := settings()
	s.Options = &calferryv1.Options{AllDayFree: true}
	require.Equal(t, "transparent", desire(t, s, "UID:1\nDTSTART:20260310").Events[0].Body.Transparency)
	require.Equal(t, "opaque", desire(t, s, plain).Events[0].Body.Transparency)
}

func TestFilters(t *testing.T) {
	t.Parallel()
	const (
		include = calferryv1.FilterMode_FILTER_MODE_INCLUDE
		exclude = calferryv1.FilterMode_FILTER_MODE_EXCLUDE
	)
	const feed = "UID:1\nDTSTART:20260310\nSUMMARY:Match day\nCATEGORIES:Sport,Home\n\nUID:2\nDTSTART:20260311\nSUMMARY:Training\nLOCATION:Hall\n\n" +
		"UID:3\nDTSTART:20260312\nRRULE:FREQ=DAILY;COUNT=3\nSUMMARY:Camp\nSTATUS:TENTATIVE\n\nUID:3\nDTSTART:20260313\nRECURRENCE-ID:20260313\nSUMMARY:Cancelled: Camp"
	for name, c := range map[string]struct {
		filters []*calferryv1.Filter
		want    []string
	}{
		"contains":        {[]*calferryv1.Filter{{Mode: include, Field: "summary", Value: "MATCH"}}, []string{"1"}},
		"either":          {[]*calferryv1.Filter{{Mode: include, Field: "summary", Value: "match"}, {Mode: include, Field: "location", Value: "hall"}}, []string{"1", "2"}},
		"equals":          {[]*calferryv1.Filter{{Mode: include, Field: "categories", Match: calferryv1.FilterMatch_FILTER_MATCH_EQUALS, Value: "home"}}, []string{"1"}},
		"regex":           {[]*calferryv1.Filter{{Mode: exclude, Field: "summary", Match: calferryv1.FilterMatch_FILTER_MATCH_REGEX, Value: "^(match|camp)"}}, []string{"2"}},
		"status":          {[]*calferryv1.Filter{{Mode: exclude, Field: "status", Value: "tentative"}}, []string{"1", "2"}},
		"uid":             {[]*calferryv1.Filter{{Mode: include, Field: "uid", Match: calferryv1.FilterMatch_FILTER_MATCH_EQUALS, Value: "2"}}, []string{"2"}},
		"bad regex":       {[]*calferryv1.Filter{{Mode: exclude, Field: "summary", Match: calferryv1.FilterMatch_FILTER_MATCH_REGEX, Value: "("}}, []string{"1", "2", "3", "3|20260313"}},
		"unknown field":   {[]*calferryv1.Filter{{Mode: include, Field: "mood", Value: "x"}}, []string{"1", "2", "3", "3|20260313"}},
		"of one instance": {[]*calferryv1.Filter{{Mode: exclude, Field: "summary", Value: "cancelled:"}}, []string{"1", "2", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settings()
			s.Options = &calferryv1.Options{Filters: c.filters}
			p := desire(t, s, feed)
			require.Equal(t, c.want, keys(p))
			if name == "of one instance" {
				require.Equal(t, []string{"RRULE:FREQ=DAILY;COUNT=3", "EXDATE;VALUE=DATE:20260313"}, p.Events[2].Body.Recurrence)
			}
		})
	}
	require.ErrorContains(t, plan.CheckFilter(&calferryv1.Filter{Field: "mood"}), "no such field")
	require.ErrorContains(t, plan.CheckFilter(&calferryv1.Filter{Field: "uid", Match: calferryv1.FilterMatch_FILTER_MATCH_REGEX, Value: "("}), "does not compile")
	require.NoError(t, plan.CheckFilter(&calferryv1.Filter{Field: "UID", Value: "("}))
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	t.Run("twins without a UID", func(t *testing.T) {
		t.Parallel()
		feed := "DTSTART:20260310\nSUMMARY:x\n\nDTSTART:20260310\nSUMMARY:x\n\nDTSTART:20260311\nSUMMARY:x"
		p := desire(t, settings(), feed)
		k := keys(p)
		require.Len(t, k, 3)
		require.Equal(t, k[0]+"#2", k[1])
		require.NotEqual(t, k[0], k[2])
		require.Equal(t, k, keys(desire(t, settings(), feed)))
	})
	t.Run("newer version", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"1 2026-03-11 to 2026-03-12"}, shown(desire(t, settings(), "UID:1\nSEQUENCE:2\nDTSTART:20260311\n\nUID:1\nSEQUENCE:1\nDTSTART:20260310")))
		require.Equal(t, []string{"1 2026-03-11 to 2026-03-12"}, shown(desire(t, settings(), "UID:1\nSEQUENCE:1767225601\nDTSTART:20260311\n\nUID:1\nSEQUENCE:1767225600\nDTSTART:20260310")))
		require.Equal(t, "b", desire(t, settings(), "UID:1\nLAST-MODIFIED:20260102T000000Z\nDTSTART:20260311\nSUMMARY:b\n\nUID:1\nLAST-MODIFIED:20260101T000000Z\nDTSTART:20260311\nSUMMARY:a").Events[0].Body.Summary)
		require.Empty(t, keys(desire(t, settings(), "UID:1\nDTSTART:20260311\n\nUID:1\nSEQUENCE:1\nSTATUS:CANCELLED\nDTSTART:20260311")))
	})
	t.Run("one UID for many events", func(t *testing.T) {
		t.Parallel()
		p := desire(t, settings(), "UID:1\nDTSTART:20260310\nSUMMARY:a\n\nUID:1\nDTSTART:20260311\nSUMMARY:b")
		k := keys(p)
		require.Len(t, k, 2)
		require.NotEqual(t, k[0], k[1])
		for _, key := range k {
			require.True(t, strings.HasPrefix(key, "1|content:"), key)
		}
	})
	t.Run("a UID like the key of another's instance", func(t *testing.T) {
		t.Parallel()
		series := "UID:1\nDTSTART:20260310\nRRULE:FREQ=DAILY;COUNT=3\n\nUID:1\nRECURRENCE-ID:20260311\nDTSTART:20260320"
		like := "UID:1|20260311\nDTSTART:20260330"
		for _, feed := range []string{series + "\n\n" + like, like + "\n\n" + series} {
			k := keys(desire(t, settings(), feed))
			slices.Sort(k)
			require.Equal(t, []string{"1", "1|20260311"}, k[:2])
			require.True(t, strings.HasPrefix(k[2], "1|20260311|content:"), k[2])
		}
		require.Equal(t, []string{"1|20260311", "2"}, keys(desire(t, settings(), like+"\n\nUID:2\nDTSTART:20260310")))
	})
	t.Run("content identity", func(t *testing.T) {
		t.Parallel()
		s := settings()
		s.Identity = calferryv1.Identity_IDENTITY_CONTENT
		series := "DTSTART:20260310\nSUMMARY:a\nRRULE:FREQ=DAILY;COUNT=3\n\nUID:%\nRECURRENCE-ID:20260311\nDTSTART:20260311\nSUMMARY:b"
		one := desire(t, s, "UID:x1\n"+strings.ReplaceAll(series, "%", "x1"))
		two := desire(t, s, "UID:x2\n"+strings.ReplaceAll(series, "%", "x2"))
		require.Equal(t, keys(one), keys(two))
		require.True(t, strings.HasPrefix(one.Events[0].Key, "content:"))
		require.Equal(t, one.Events[0].Key, one.Events[1].MasterKey)
	})
}

func TestFeedActions(t *testing.T) {
	t.Parallel()
	read := func(t *testing.T, body string) *plan.Plan {
		t.Helper()
		p, err := plan.Desired(strings.NewReader(body), settings())
		require.NoError(t, err)
		return p
	}
	for name, c := range map[string]struct {
		body           string
		action         plan.Action
		reason, detail string
	}{
		"login page":        {"<html><title>Sign in &amp; go</title>", plan.Reject, plan.ReasonNotCalendar, `a login page ("Sign in & go")`},
		"challenge page":    {"<!DOCTYPE html><title>Just a moment...</title>", plan.Reject, plan.ReasonNotCalendar, "Cloudflare"},
		"other page":        {"<!DOCTYPE html><p>hello", plan.Reject, plan.ReasonNotCalendar, "a web page"},
		"JSON":              {`{"error":"x"}`, plan.Reject, plan.ReasonNotCalendar, "JSON"},
		"XML":               {`<?xml version="1.0"?><error/>`, plan.Reject, plan.ReasonNotCalendar, "XML"},
		"nothing":           {"", plan.Reject, plan.ReasonNotCalendar, "empty"},
		"a document":        {"%PDF-1.7", plan.Reject, plan.ReasonNotCalendar, "a document"},
		"text":              {"moved", plan.Reject, plan.ReasonNotCalendar, "BEGIN:VCALENDAR"},
		"no calendar":       {"BEGIN:VEVENT\nUID:1\nDTSTART:20260310\nEND:VEVENT\n", plan.Reject, plan.ReasonNotCalendar, ""},
		"tasks only":        {"BEGIN:VCALENDAR\nBEGIN:VTODO\nUID:1\nEND:VTODO\nEND:VCALENDAR\n", plan.Guard, plan.ReasonEmpty, "no event"},
		"unreadable events": {calendar("UID:1\nDTSTART:soon"), plan.Guard, plan.ReasonUnreadable, "none"},
		"cancelled events":  {calendar("UID:1\nSTATUS:CANCELLED\nDTSTART:20260310"), plan.Apply, "", ""},
		"replies":           {calendar("+METHOD:REPLY\n\nUID:1\nDTSTART:20260310"), plan.Guard, plan.ReasonEmpty, "no event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := read(t, c.body)
			require.Equal(t, c.action, p.Action)
			require.Equal(t, c.reason, p.Reason)
			require.Contains(t, p.Detail, c.detail)
			require.Empty(t, p.Events)
		})
	}
	t.Run("page behind noise", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, plan.Apply, read(t, "Warning: x\n\n"+calendar("UID:1\nDTSTART:20260310")).Action)
	})
	t.Run("too many events", func(t *testing.T) {
		t.Parallel()
		s := settings()
		s.MaxEvents = 2
		p := desire(t, s, "UID:1\nDTSTART:20260310\n\nUID:2\nDTSTART:20260310\n\nUID:3\nDTSTART:20260310")
		require.Equal(t, plan.AdditiveOnly, p.Action)
		require.Equal(t, plan.ReasonTooManyEvents, p.Reason)
		require.False(t, p.Complete)
		require.Len(t, p.Events, 2)
		s.MaxEvents = 3
		require.Equal(t, plan.Apply, desire(t, s, "UID:1\nDTSTART:20260310\n\nUID:2\nDTSTART:20260310\n\nUID:3\nDTSTART:20260310").Action)
	})
	t.Run("broken connection", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("reset")
		p, err := plan.Desired(io.MultiReader(strings.NewReader("BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART:20260310\nEND:VEVENT\n"), iotest.ErrReader(broken)), settings())
		require.ErrorIs(t, err, broken)
		require.Equal(t, plan.AdditiveOnly, p.Action)
		require.Len(t, p.Events, 1)
	})
	t.Run("one bad event costs no other", func(t *testing.T) {
		t.Parallel()
		p := desire(t, settings(), "UID:1\nDTSTART:20260310\n\nUID:2\nDTSTART;TZID=X:yesterday\nSUMMARY:bad\n\nUID:3\nDTSTART:20260310\nDTEND:never\nDURATION:x\nRRULE:FREQ=SOMETIMES\nGEO:x\nSEQUENCE:y")
		require.Equal(t, []string{"1", "3"}, keys(p))
		require.Equal(t, []string{"2"}, p.Unreadable)
		require.Equal(t, 1, p.Skipped)
		require.Equal(t, 3, p.Read)
		require.Equal(t, plan.Apply, p.Action)
		require.Contains(t, p.Notes, plan.Note{Line: 7, Key: "2", Kind: plan.NoteSkipped, Code: "unreadable-start", Text: "the event has no start that can be read"})
	})
	t.Run("what the feed says of itself", func(t *testing.T) {
		t.Parallel()
		p := desire(t, settings(), "+X-WR-CALNAME:My\\, calendar\n+REFRESH-INTERVAL;VALUE=DURATION:PT12H\n+METHOD:publish\n\nUID:1\nDTSTART:20260310")
		require.Equal(t, "My, calendar", p.Name)
		require.Equal(t, 12*time.Hour, p.RefreshInterval)
		require.Equal(t, "PUBLISH", p.Method)
		require.Equal(t, time.Hour, desire(t, settings(), "+X-PUBLISHED-TTL:PT1H\n+REFRESH-INTERVAL:odd").RefreshInterval)
	})
}
