package gcalsim

import (
	"cmp"
	"net/http"
	"sync"
	"time"
)

// Limits are the quotas that span calendars. Zero is the default, a negative number no limit.
type Limits struct {
	UserUnits    int `json:"user_units,omitempty"`    // units per minute, project and user, sliding; DefaultUserUnits
	ProjectUnits int `json:"project_units,omitempty"` // units per minute and project, sliding; DefaultProjectUnits
	// Creates is how many events an account may insert before inserts answer quotaExceeded; no limit by default. The block
	// ends CreatesRecover after it began (default: never), and the count starts over.
	Creates        int           `json:"creates,omitempty"`
	CreatesRecover time.Duration `json:"creates_recover,omitempty"`
	// Calendars is how many calendars an account may ever make; deleting some does not give them back. DefaultCalendarCreates.
	Calendars int `json:"calendars,omitempty"`
	// UserStatus and ProjectStatus are the HTTP codes of these refusals: 403 and 429, which Google says mean the same.
	UserStatus    int `json:"user_status,omitempty"`
	ProjectStatus int `json:"project_status,omitempty"`
	// RetryAfter is sent with refusals of the quotas per minute; 0 sends none.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
}

func (l Limits) withDefaults() Limits {
	l.UserUnits = cmp.Or(l.UserUnits, DefaultUserUnits)
	l.ProjectUnits = cmp.Or(l.ProjectUnits, DefaultProjectUnits)
	l.Creates = cmp.Or(l.Creates, -1)
	l.Calendars = cmp.Or(l.Calendars, DefaultCalendarCreates)
	l.UserStatus = cmp.Or(l.UserStatus, http.StatusForbidden)
	l.ProjectStatus = cmp.Or(l.ProjectStatus, http.StatusTooManyRequests)
	return l
}

// quotas counts what spans calendars.
type quotas struct {
	mu       sync.Mutex
	limits   Limits
	users    map[[2]string]meter // project, account
	projects map[string]meter
	creates  map[string]*creates // account
	made     map[string]int      // account -> calendars
}

type creates struct {
	count    int
	shut     bool
	shutTill time.Time // zero: for good
}

func newQuotas(l Limits) *quotas {
	q := &quotas{}
	q.set(l)
	return q
}

func (q *quotas) set(l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits = l
	q.users, q.projects = map[[2]string]meter{}, map[string]meter{}
	if q.creates == nil {
		q.creates, q.made = map[string]*creates{}, map[string]int{}
	}
}

// charge takes the units of a request from its user and project. Refused requests cost nothing.
func (q *quotas) charge(now time.Time, project, account string, units int) *problem {
	q.mu.Lock()
	defer q.mu.Unlock()
	var p *problem
	switch {
	case !take(q.projects, project, q.limits.ProjectUnits, now, units):
		p = minuteThrottled(project, "Project", q.limits.ProjectUnits, q.limits.ProjectStatus)
	case !take(q.users, [2]string{project, account}, q.limits.UserUnits, now, units):
		p = minuteThrottled(project, "User", q.limits.UserUnits, q.limits.UserStatus)
	default:
		return nil
	}
	p.retryAfter(q.limits.RetryAfter)
	return p
}

func take[K comparable](meters map[K]meter, key K, limit int, now time.Time, units int) bool {
	if limit < 0 {
		return true
	}
	m, ok := meters[key]
	if !ok {
		m = SlidingWindow{N: limit, Window: time.Minute}.meter()
		meters[key] = m
	}
	return m.take(now, units)
}

// create counts a new event of an account, or refuses it.
func (q *quotas) create(now time.Time, account string) *problem {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.of(account)
	if c.shut && !c.shutTill.IsZero() && !now.Before(c.shutTill) {
		*c = creates{}
	}
	if !c.shut && q.limits.Creates >= 0 && c.count >= q.limits.Creates {
		c.shut = true
		if q.limits.CreatesRecover > 0 {
			c.shutTill = now.Add(q.limits.CreatesRecover)
		}
	}
	if c.shut {
		return usageExceeded()
	}
	c.count++
	return nil
}

func (q *quotas) of(account string) *creates {
	c, ok := q.creates[account]
	if !ok {
		c = &creates{}
		q.creates[account] = c
	}
	return c
}

// makeCalendar counts a new calendar, or refuses it.
func (q *quotas) makeCalendar(account string) *problem {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limits.Calendars >= 0 && q.made[account] >= q.limits.Calendars {
		return usageExceeded()
	}
	q.made[account]++
	return nil
}

// SetLimits changes the quotas that span calendars; the minutes counted so far are forgotten, the creates are not.
func (s *Sim) SetLimits(l Limits) { s.quotas.set(l.withDefaults()) }

// StopCreates makes inserts of an account answer quotaExceeded for a while by the simulator's clock; 0 is until AllowCreates.
func (s *Sim) StopCreates(account string, d time.Duration) {
	s.quotas.mu.Lock()
	defer s.quotas.mu.Unlock()
	c := s.quotas.of(account)
	c.shut, c.shutTill = true, time.Time{}
	if d > 0 {
		c.shutTill = s.now().Add(d)
	}
}

// AllowCreates ends a quotaExceeded and starts the count over.
func (s *Sim) AllowCreates(account string) {
	s.quotas.mu.Lock()
	defer s.quotas.mu.Unlock()
	*s.quotas.of(account) = creates{}
}

// SetQuota gives a calendar a limit of its own, with a full allowance; nil lifts it. The calendar need not exist yet.
func (s *Sim) SetQuota(calendar string, limit Limit) { s.gate(calendar).set(limit) }

// SetThrottle says how a calendar refuses.
func (s *Sim) SetThrottle(calendar string, t Throttle) {
	g := s.gate(calendar)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.throttle = t
}

// Penalise closes a calendar to writes for a while, by the simulator's clock.
func (s *Sim) Penalise(calendar string, d time.Duration) {
	g := s.gate(calendar)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shutTill = s.now().Add(d)
}
