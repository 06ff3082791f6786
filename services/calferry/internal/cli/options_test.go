package cli_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Every option that there is can be given to every command that shapes events, and is shown by `calferry feed show` in
// the same words.
func TestEveryOptionHasAFlag(t *testing.T) {
	t.Parallel()
	flags := map[string]string{
		"default_zone": "default-zone", "title_prefix": "title-prefix", "title_template": "title-template", "color_id": "color", "visibility": "visibility",
		"busy": "busy", "reminders": "reminders", "strip_description": "strip-description", "strip_location": "strip-location", "horizon_days": "horizon-days",
		"drop_past": "drop-past", "filters": "include", "window_past_days": "past-days", "window_future_days": "future-days", "feed_wins": "feed-wins",
		"all_day_free": "all-day-free", "category_colors": "category-color", "attendees": "attendees", "zero_length_minutes": "zero-length-minutes", "noise": "noise",
	}
	fields := new(calferryv1.Options).ProtoReflect().Descriptor().Fields()
	for _, command := range [][]string{{"feed", "add"}, {"feed", "edit"}, {"plan"}, {"sync"}, {"doctor"}} {
		help := run(t, append(command, "--help")...).ok(t).stdout
		for i := range fields.Len() {
			flag := flags[string(fields.Get(i).Name())]
			require.NotEmpty(t, flag, "the option %s is not known here", fields.Get(i).Name())
			require.Regexp(t, `(?m)^ +--`+regexp.QuoteMeta(flag)+` `, help, "%v", command)
		}
	}
}

// Plans follow the options that are given with them.
func TestPlanTakesOptions(t *testing.T) {
	t.Parallel()
	feed := write(t, "feed.ics", "BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nUID:1\nDTSTART:20260310T090000Z\nSUMMARY:Maths\nCATEGORIES:Exam\n"+
		"DESCRIPTION:Room 4\\nLast updated 12:03\nORGANIZER;CN=Ada:mailto:ada@example.com\nEND:VEVENT\nBEGIN:VEVENT\nUID:2\nDTSTART:20260311T090000Z\nSUMMARY:Lunch\nEND:VEVENT\nEND:VCALENDAR\n")
	var got struct {
		Events []struct{ Summary, Description, ColorID, End string }
	}
	run(t, "plan", feed, "--json", "--exclude", "summary~lunch", "--category-color", "exam=11", "--noise", "^last updated .*", "--attendees",
		"--zero-length-minutes", "45", "--title-prefix", "School: ").ok(t).into(t, &got)
	require.Len(t, got.Events, 1)
	require.Equal(t, "School: Maths", got.Events[0].Summary)
	require.Equal(t, "Room 4\n\nOrganiser: Ada (ada@example.com)", got.Events[0].Description)
	require.Equal(t, "11", got.Events[0].ColorID)
	require.Equal(t, "2026-03-10T09:45:00Z", got.Events[0].End)
	run(t, "plan", feed, "--busy", "maybe").refused(t, exitFailed, "busy", "choose one of")
	run(t, "doctor", feed, "--noise", "(").refused(t, exitFailed, "noise 1", "regular expression")
	require.Contains(t, run(t, "doctor", feed, "--exclude", "summary~lunch").ok(t).stdout, "1 events to write of 2 read")
}
