package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

// TestPipelineOptionsOfALiveSubscription changes options one after the other, and counts what Google is asked: a write
// for each event that the change touches, and none for the others.
func TestPipelineOptionsOfALiveSubscription(t *testing.T) {
	t.Parallel()
	const exams, others = 3, 20
	r := newPipelineRig(t, pipelineOptions{
		sim: gcalsim.Config{Limits: gcalsim.Limits{UserUnits: -1, ProjectUnits: -1}},
		stack: func(s *stack.Config) {
			s.Writer.StartPace, s.Writer.MaxPace, s.Writer.UserUnits, s.Writer.ProjectUnits = 300, 300, 1e6, 1e6
		},
	})
	feed := func(updated string) string {
		var b strings.Builder
		b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//Options//EN\r\n")
		for i := range exams + others {
			lines := "CATEGORIES:School\r\n"
			if i < exams {
				lines = "CATEGORIES:School,Exam\r\nDESCRIPTION:Room 4\\nLast updated " + updated + "\r\nORGANIZER;CN=Ada:mailto:ada@example.com\r\n"
			}
			fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:%d@example.com\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:%sT080000Z\r\nDURATION:PT30M\r\nSUMMARY:Lesson %d\r\n%sEND:VEVENT\r\n",
				i, pipelineDay.AddDate(0, 0, i).Format("20060102"), i, lines)
		}
		b.WriteString("END:VCALENDAR\r\n")
		return b.String()
	}
	r.feed.setText(feed("12:00"))
	var id string
	require.Len(t, r.counted(func() {
		id = r.subscribe()
		r.settled(1)
	}), exams+others)

	set := func(o *calferryv1.Options) func() {
		return func() {
			_, err := r.client.UpdateSubscription(t.Context(), connect.NewRequest(&calferryv1.UpdateSubscriptionRequest{Id: id, Options: o}))
			require.NoError(t, err)
		}
	}
	read := func(updated string) func() {
		return func() {
			r.feed.setText(feed(updated))
			r.syncNow(id)
		}
	}
	color := func(pairs ...string) *calferryv1.Options {
		o := &calferryv1.Options{}
		for i := 0; i < len(pairs); i += 2 {
			o.CategoryColors = append(o.CategoryColors, &calferryv1.CategoryColor{Category: pairs[i], ColorId: pairs[i+1]})
		}
		return o
	}
	for _, step := range []struct {
		name   string
		change func()
		want   int
		colors map[string]int // of the events that have one, afterwards
	}{
		{"a colour of the exams", set(color("exam", "11")), exams, map[string]int{"11": exams}},
		{"the same, with one that no event has", set(color("EXAM", "11", "Sport", "2")), 0, map[string]int{"11": exams}},
		{"another colour of the exams", set(color("Exam", "5")), exams, map[string]int{"5": exams}},
		{"one of all lessons, which come first", set(color("Exam", "5", "School", "3")), exams + others, map[string]int{"3": exams + others}},
		{"of the exams alone again", set(color("Exam", "5")), exams + others, map[string]int{"5": exams}},
		{"a line that changes with every read", read("12:15"), exams, map[string]int{"5": exams}},
		{"that line is noise", set(&calferryv1.Options{Noise: []string{"^last updated .*"}, CategoryColors: color("Exam", "5").GetCategoryColors()}), exams, map[string]int{"5": exams}},
		{"the line changes again", read("12:30"), 0, map[string]int{"5": exams}},
		{"no options", set(&calferryv1.Options{}), exams, map[string]int{}},
		{"attendees", set(&calferryv1.Options{Attendees: true}), exams, map[string]int{}},
	} {
		got := r.counted(func() { r.synced(id, step.change) })
		require.Len(t, got, step.want, "%s: %v", step.name, got)
		for _, request := range got {
			require.True(t, strings.HasPrefix(request, string(gcalsim.OpPatch)+" "), "%s: %s", step.name, request)
		}
		colors := map[string]int{}
		for _, ev := range r.sim.Events(pipelineCalendar) {
			if ev.ColorId != "" {
				colors[ev.ColorId]++
			}
			require.Empty(t, ev.Attendees, "nobody is invited")
		}
		require.Equal(t, step.colors, colors, step.name)
	}
	for _, ev := range r.sim.Events(pipelineCalendar) {
		if ev.Description != "" {
			require.Equal(t, "Room 4\nLast updated 12:30\n\nOrganiser: Ada (ada@example.com)", ev.Description)
		}
		require.Contains(t, ev.ExtendedProperties.Private["calferryCategories"], "School")
	}
}
