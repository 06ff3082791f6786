package oauth

import (
	"fmt"
	"slices"
	"strings"
)

// The scopes that Calferry asks for.
const (
	// ScopeAppCreated is enough to make calendars and to write into those.
	ScopeAppCreated = "https://www.googleapis.com/auth/calendar.app.created"
	// ScopeEvents and ScopeListRead are for calendars that exist already.
	ScopeEvents   = "https://www.googleapis.com/auth/calendar.events"
	ScopeListRead = "https://www.googleapis.com/auth/calendar.calendarlist.readonly"
	// ScopeCalendar holds all of them; Calferry asks for it only for service accounts.
	ScopeCalendar = "https://www.googleapis.com/auth/calendar"

	scopeOpenID = "openid"
	scopeEmail  = "email"
)

// words are what people read for the scopes, as it goes on after "to".
var words = map[string]string{
	ScopeAppCreated: "make calendars of its own and change the events on them",
	ScopeEvents:     "see and change the events on your calendars",
	ScopeListRead:   "see the list of your calendars",
	ScopeCalendar:   "see and change your calendars and their events",
}

// Words says in plain words what a scope lets Calferry do; a scope that it does not know is its own word.
func Words(scope string) string {
	if w, known := words[scope]; known {
		return w
	}
	return scope
}

// Needed are the scopes to ask for: the narrowest for what is wanted, and beside it what the account has already, so that
// its calendars stay in reach. fresh is to make new calendars, existing to use those that are there; neither, for an account that
// has nothing, is fresh.
func Needed(fresh, existing bool, had []string) []string {
	var needed []string
	for _, scope := range had {
		if words[scope] != "" && !slices.Contains(needed, scope) {
			needed = append(needed, scope)
		}
	}
	var want []string
	if existing {
		want = append(want, ScopeEvents, ScopeListRead)
	}
	if fresh || !existing && len(needed) == 0 {
		want = append(want, ScopeAppCreated)
	}
	for _, scope := range want {
		if !slices.Contains(needed, scope) {
			needed = append(needed, scope)
		}
	}
	return needed
}

// Holds tells whether granted scopes allow what scope does.
func Holds(granted []string, scope string) bool {
	return slices.Contains(granted, scope) || words[scope] != "" && slices.Contains(granted, ScopeCalendar)
}

// MissingScopesError says which boxes the person left unticked.
type MissingScopesError struct{ Missing []string }

func (e *MissingScopesError) Error() string {
	var said []string
	for _, scope := range e.Missing {
		said = append(said, "“"+Words(scope)+"”")
	}
	boxes := "tick that box"
	if len(said) > 1 {
		boxes = "tick those boxes"
	}
	return fmt.Sprintf("Calferry was not allowed to %s, and cannot work without; nothing was stored. Try again, and %s on Google's page",
		strings.Join(said, " and to "), boxes)
}
