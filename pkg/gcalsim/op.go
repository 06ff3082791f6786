package gcalsim

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Op names what a request asks for.
type Op string

// The operations served. OpWrite and OpRead stand for all that change, or only read, events; they appear in a [Match] only.
const (
	OpInsert    Op = "insert"
	OpImport    Op = "import"
	OpPut       Op = "put"
	OpPatch     Op = "patch"
	OpDelete    Op = "delete"
	OpGet       Op = "get"
	OpList      Op = "list"
	OpInstances Op = "instances"

	OpCalendarInsert Op = "calendars.insert"
	OpCalendarGet    Op = "calendars.get"
	OpCalendarPatch  Op = "calendars.patch"
	OpCalendarPut    Op = "calendars.put"
	OpCalendarDelete Op = "calendars.delete"
	OpEntryGet       Op = "calendarList.get"
	OpEntryList      Op = "calendarList.list"
	OpEntryPatch     Op = "calendarList.patch"
	OpEntryInsert    Op = "calendarList.insert"
	OpEntryDelete    Op = "calendarList.delete"

	OpConsent  Op = "consent"
	OpToken    Op = "token"
	OpRevoke   Op = "revoke"
	OpUserInfo Op = "userinfo"
	OpUnknown  Op = "unknown"

	OpWrite Op = "write"
	OpRead  Op = "read"
)

// Writes says whether the operation changes events, which is what the limit of a calendar counts.
func (o Op) Writes() bool {
	switch o {
	case OpInsert, OpImport, OpPut, OpPatch, OpDelete:
		return true
	}
	return false
}

// Reads says whether the operation only reads events.
func (o Op) Reads() bool { return o == OpGet || o == OpList || o == OpInstances }

// units is what Google charges the quotas per user and project: three for a patch, as documented, one for the rest.
func (o Op) units() int {
	switch o {
	case OpPatch, OpCalendarPatch, OpEntryPatch:
		return 3
	}
	return 1
}

// method is the operation's name in Google's error details.
func (o Op) method() string {
	switch o {
	case OpPut:
		return "calendar.v3.Events.Update"
	case OpInsert, OpImport, OpPatch, OpDelete, OpGet, OpList, OpInstances:
		return "calendar.v3.Events." + strings.ToUpper(string(o[:1])) + string(o[1:])
	}
	resource, verb, _ := strings.Cut(string(o), ".")
	if verb == "" {
		return "calendar.v3." + resource
	}
	return "calendar.v3." + strings.ToUpper(resource[:1]) + resource[1:] + "." + strings.ToUpper(verb[:1]) + verb[1:]
}

// target is a request's path, understood.
type target struct {
	op       Op
	calendar string
	event    string
}

// route reads the escaped path, because ids hold characters (@, #, /) that must not be taken for structure. The base path may
// be missing, or missing its last segment as it is when a client was given an endpoint without a trailing slash.
func route(method, escapedPath string) target {
	var seg []string
	for s := range strings.SplitSeq(escapedPath, "/") {
		if s == "" {
			continue
		}
		plain, err := url.PathUnescape(s)
		if err != nil {
			return target{op: OpUnknown}
		}
		seg = append(seg, plain)
	}
	if len(seg) == 1 {
		switch seg[0] {
		case "token":
			return target{op: OpToken}
		case "revoke":
			return target{op: OpRevoke}
		case "userinfo":
			return target{op: OpUserInfo}
		}
	}
	if slices.Equal(seg, []string{"o", "oauth2", "v2", "auth"}) {
		return target{op: OpConsent}
	}
	for _, base := range []string{"calendar", "v3"} {
		if len(seg) > 0 && seg[0] == base {
			seg = seg[1:]
		}
	}
	switch {
	case len(seg) >= 1 && seg[0] == "calendars":
		return routeCalendar(method, seg[1:])
	case len(seg) >= 3 && slices.Equal(seg[:3], []string{"users", "me", "calendarList"}):
		return routeEntry(method, seg[3:])
	}
	return target{op: OpUnknown}
}

func routeCalendar(method string, seg []string) target {
	verbs := map[string]Op{}
	t := target{op: OpUnknown}
	switch {
	case len(seg) == 0:
		verbs[http.MethodPost] = OpCalendarInsert
	case len(seg) == 1:
		t.calendar = seg[0]
		verbs = map[string]Op{
			http.MethodGet: OpCalendarGet, http.MethodPatch: OpCalendarPatch, http.MethodPut: OpCalendarPut, http.MethodDelete: OpCalendarDelete,
		}
	case seg[1] != "events":
		return t
	case len(seg) == 2:
		t.calendar = seg[0]
		verbs = map[string]Op{http.MethodGet: OpList, http.MethodPost: OpInsert}
	case len(seg) == 3 && seg[2] == "import" && method == http.MethodPost:
		t.calendar = seg[0]
		verbs[http.MethodPost] = OpImport
	case len(seg) == 3:
		t.calendar, t.event = seg[0], seg[2]
		verbs = map[string]Op{http.MethodGet: OpGet, http.MethodPut: OpPut, http.MethodPatch: OpPatch, http.MethodDelete: OpDelete}
	case len(seg) == 4 && seg[3] == "instances":
		t.calendar, t.event = seg[0], seg[2]
		verbs[http.MethodGet] = OpInstances
	}
	if op, ok := verbs[method]; ok {
		t.op = op
	}
	return t
}

func routeEntry(method string, seg []string) target {
	switch {
	case len(seg) == 0 && method == http.MethodGet:
		return target{op: OpEntryList}
	case len(seg) == 0 && method == http.MethodPost:
		return target{op: OpEntryInsert}
	case len(seg) == 1 && method == http.MethodGet:
		return target{op: OpEntryGet, calendar: seg[0]}
	case len(seg) == 1 && method == http.MethodPatch:
		return target{op: OpEntryPatch, calendar: seg[0]}
	case len(seg) == 1 && method == http.MethodDelete:
		return target{op: OpEntryDelete, calendar: seg[0]}
	}
	return target{op: OpUnknown}
}
