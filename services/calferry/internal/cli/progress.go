package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/calferry/calferry/services/calferry/internal/oneshot"
)

// progressLine is one line on a terminal that is written over as a sync goes on; nothing elsewhere.
type progressLine struct {
	w     io.Writer
	shown bool
}

func (a *App) progressLine() *progressLine {
	if !a.Terminal {
		return &progressLine{}
	}
	return &progressLine{w: a.Stderr}
}

func (l *progressLine) show(p oneshot.Progress) {
	if l.w == nil {
		return
	}
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%d written, %d waiting", p.Written, p.Waiting)
	if p.Pace > 0 {
		_, _ = fmt.Fprintf(&b, ", %.1f/s", p.Pace)
	}
	if p.Throttled > 0 {
		_, _ = fmt.Fprintf(&b, ", slowed down %d times", p.Throttled)
	}
	if wait := time.Until(p.ResumesAt); wait > 0 {
		_, _ = fmt.Fprintf(&b, ", resumes in about %s", wait.Round(time.Second))
	}
	if left := p.Left(time.Now()); left > 0 {
		_, _ = fmt.Fprintf(&b, ", about %s left", left.Round(time.Second))
	}
	_, _ = fmt.Fprintf(l.w, "\r\x1b[K%s", b.String())
	l.shown = true
}

func (l *progressLine) end() {
	if l.shown {
		_, _ = fmt.Fprintln(l.w)
	}
}
