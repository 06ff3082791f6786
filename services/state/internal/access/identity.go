package access

import (
	"context"
	"slices"
	"strings"
)

// Role is what somebody may do.
type Role int

// The roles. Nobody is the zero value.
const (
	Nobody Role = iota
	// Viewer may read.
	Viewer
	// Operator may do everything.
	Operator
)

// String returns the role's name.
func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	default:
		return "nobody"
	}
}

// Identity is who makes a request.
type Identity struct {
	// Actor is the address of a person, "token", "viewer token", or "local".
	Actor string
	Role  Role
	// Session is set where the browser's session shows it: what logging out ends. A proxy's word is none.
	Session bool
}

type identityKey struct{}

// From returns who makes the request that ctx belongs to; the zero Identity when nobody has checked.
func From(ctx context.Context) Identity {
	who, _ := ctx.Value(identityKey{}).(Identity)
	return who
}

// With returns a context of a request that who makes.
func With(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

// person is what a provider or proxy tells about somebody.
type person struct {
	email  string
	groups []string
}

// role is the highest that the lists give a person.
func (s Settings) role(p person) Role {
	switch {
	case p.email == "" && len(p.groups) == 0:
		return Nobody
	case p.listed(s.Operators):
		return Operator
	case p.listed(s.Viewers):
		return Viewer
	default:
		return Nobody
	}
}

func (p person) listed(entries []string) bool {
	email := strings.ToLower(p.email)
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if group, ok := strings.CutPrefix(entry, "group:"); ok {
			if slices.Contains(p.groups, group) {
				return true
			}
			continue
		}
		entry = strings.ToLower(entry)
		switch {
		case entry == "*":
			return true
		case email == "" || entry == "":
		case strings.HasPrefix(entry, "@"):
			// The domain is what follows the last @: a quoted local part may hold others.
			if at := strings.LastIndexByte(email, '@'); at > 0 && email[at:] == entry {
				return true
			}
		case entry == email:
			return true
		}
	}
	return false
}
