package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/calferry/calferry/pkg/plan"
)

// noteJSON is one thing that was noticed about a feed.
type noteJSON struct {
	Kind string `json:"kind"`
	Code string `json:"code"`
	Line int    `json:"line,omitempty"`
	Key  string `json:"key,omitempty"`
	Text string `json:"text"`
}

// zoneJSON is what was made of one name of a time zone.
type zoneJSON struct {
	Name string `json:"name"`
	Zone string `json:"zone"`
	How  string `json:"how"`
	Line int    `json:"line"`
}

func notesOf(p *plan.Plan) []noteJSON {
	notes := make([]noteJSON, 0, len(p.Notes))
	for _, n := range p.Notes {
		notes = append(notes, noteJSON{string(n.Kind), n.Code, n.Line, n.Key, n.Text})
	}
	return notes
}

func zonesOf(p *plan.Plan) []zoneJSON {
	zones := make([]zoneJSON, 0, len(p.Zones))
	for _, use := range p.Zones {
		zones = append(zones, zoneJSON(use))
	}
	return zones
}

// summary says in a line or two what the feed is and how it would be handled.
func summary(p *plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d events to write of %d read, %d skipped; the feed would be handled as %q", len(p.Events), p.Read, p.Skipped, p.Action)
	if p.Detail != "" {
		b.WriteString(": " + printable(p.Detail))
	}
	b.WriteByte('\n')
	if p.Name != "" {
		fmt.Fprintf(&b, "It calls itself %q.\n", printable(p.Name))
	}
	if p.RefreshInterval > 0 {
		fmt.Fprintf(&b, "It asks to be read every %s.\n", p.RefreshInterval)
	}
	if len(p.Withdrawn) > 0 {
		fmt.Fprintf(&b, "It declares %d of its events cancelled.\n", len(p.Withdrawn))
	}
	if len(p.OutOfWindow) > 0 {
		fmt.Fprintf(&b, "%d events lie outside of the window and are left alone.\n", len(p.OutOfWindow))
	}
	if !p.RefreshAt.IsZero() {
		fmt.Fprintf(&b, "Rules that Google does not take are written out as dates until %s, and renewed then.\n", p.RefreshAt.UTC().Format("2 January 2006"))
	}
	return b.String()
}

var foundBy = map[string]string{
	"name": "its name", "rules": "the same rules", "definition": "the feed's own definition", "offset": "its offset from UTC",
	"floating": "nothing: the zone of times without one",
}

// writeZones says what became of the zones that a feed names.
func writeZones(w io.Writer, zones []zoneJSON) {
	if len(zones) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\nTIME ZONE\tREAD AS\tFOUND BY\tFIRST ON LINE")
	for _, use := range zones {
		how := foundBy[use.How]
		if use.Name == "" {
			how = "the feed, the options or the calendar"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\n", cmp.Or(printable(use.Name), "(none named)"), cmp.Or(use.Zone, "UTC"), how, use.Line)
	}
	_ = table.Flush()
}

// writeNotes lists notes of one kind under a heading, if there are any.
func writeNotes(w io.Writer, heading string, notes []noteJSON, kind plan.NoteKind) {
	var kept []noteJSON
	for _, n := range notes {
		if kind == "" || n.Kind == string(kind) {
			kept = append(kept, n)
		}
	}
	if len(kept) == 0 {
		return
	}
	_, _ = fmt.Fprintf(w, "\n%s\n", heading)
	for _, n := range kept {
		_, _ = fmt.Fprintf(w, "  %s\n", n)
	}
}

// explain says what was made of a feed and why, but for the events themselves.
func explain(w io.Writer, p *plan.Plan) {
	notes := notesOf(p)
	writeZones(w, zonesOf(p))
	writeNotes(w, "Time zones that were guessed:", notes, plan.NoteZone)
	writeNotes(w, "Left out:", notes, plan.NoteSkipped)
	writeNotes(w, "Warnings:", notes, plan.NoteWarning)
}

// String is a note as people read it.
func (n noteJSON) String() string {
	where := "the feed"
	if n.Line > 0 {
		where = fmt.Sprintf("line %d", n.Line)
	}
	if n.Key != "" {
		where += ", " + printable(clip(n.Key, 60))
	}
	return where + ": " + printable(n.Text) + " [" + n.Code + "]"
}

func clip(s string, limit int) string {
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}

// printable is text of a feed on one line, without what would steer a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
}
