package pace

import "time"

// Budget counts what was asked of Google, and what may be.
type Budget struct {
	// Units within the last 60 s: exact at the end of a minute, an estimate within it. The limits are Google's.
	UserMinute, UserMinuteLimit       int
	ProjectMinute, ProjectMinuteLimit int
	// Requests of the Pacific day that is on, and how many are free in it.
	UserDay, ProjectDay, ProjectDayLimit int
	// DayEndsIn is the time until the next day begins.
	DayEndsIn time.Duration
	// NearTermOnly tells that requests that are Far are not granted before that.
	NearTermOnly bool
}

// day returns when the present Pacific day began and when it ends.
func (p *Pacer) day() (begins, ends time.Time) {
	y, m, d := p.cfg.Now().In(p.pacific).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, p.pacific), time.Date(y, m, d+1, 0, 0, 0, 0, p.pacific)
}

// farRequests is how many requests of a day may be granted before those that are Far must wait.
func (p *Pacer) farRequests() int {
	return max(1, int(p.cfg.DayShare*float64(p.cfg.DayRequests)))
}

// budget reads four numbers of an answer, from a place on.
func (p *Pacer) budget(answer *reply, at int, ends time.Time) Budget {
	b := Budget{
		UserMinute: int(answer.number(at)), UserMinuteLimit: int(p.cfg.UserUnitsPerMinute), UserDay: int(answer.number(at + 1)),
		ProjectMinute: int(answer.number(at + 2)), ProjectMinuteLimit: int(p.cfg.ProjectUnitsPerMinute),
		ProjectDay: int(answer.number(at + 3)), ProjectDayLimit: p.cfg.DayRequests,
		DayEndsIn: ends.Sub(p.cfg.Now()),
	}
	b.NearTermOnly = b.ProjectDay >= p.farRequests()
	return b
}
