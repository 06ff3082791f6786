package gcalsim

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"time"
)

// event is one stored row: a single event, the master of a series, or an exception of one. Rows are never changed in place;
// a write stores a new one.
type event struct {
	id       string
	ordinal  int    // position in listings, by creation
	version  uint64 // the etag, and the point in time for sync tokens
	created  time.Time
	updated  time.Time
	sequence int64
	status   string // confirmed, tentative or cancelled

	creator string
	icalUID string
	fields  map[string]any // what a client can write, start and end included; never written to
	start   moment
	end     moment
	rule    *recurrence // of a master

	master     string // of an exception: the id of its series
	original   moment // of an exception: when it would have started
	withMaster bool   // cancelled only because the series was
	purged     bool   // not to be seen any more, but the id stays taken
}

func (e *event) cancelled() bool { return e.status == statusCancelled }

const (
	statusConfirmed = "confirmed"
	statusTentative = "tentative"
	statusCancelled = "cancelled"
)

func (e *event) etag() string { return fmt.Sprintf(`"%d"`, e.version) }

// matches says whether an If-Match header lets a write through.
func (e *event) matches(ifMatch string) bool {
	if ifMatch == "" || ifMatch == "*" {
		return true
	}
	for tag := range strings.SplitSeq(ifMatch, ",") {
		if strings.TrimSpace(tag) == e.etag() {
			return true
		}
	}
	return false
}

func (e *event) property(kind, key string) (string, bool) {
	props, _ := e.fields["extendedProperties"].(map[string]any)
	set, _ := props[kind].(map[string]any)
	v, ok := set[key].(string)
	return v, ok
}

// view is how a response shows events: which calendar, and in which zone.
type view struct {
	calendar string
	title    string
	loc      *time.Location
}

const stampLayout = "2006-01-02T15:04:05.000Z"

// render words the event as a response does. Cancelled exceptions are bare.
func (v view) render(e *event) map[string]any {
	out := map[string]any{"kind": "calendar#event", "etag": e.etag(), "id": e.id, "status": e.status}
	if e.master != "" {
		out["recurringEventId"] = e.master
		out["originalStartTime"] = e.original.render(v.loc)
		if e.cancelled() {
			return out
		}
	}
	for key, value := range e.fields {
		if !isDefault(key, value) && (key != "recurrence" || e.master == "") {
			out[key] = value
		}
	}
	out["htmlLink"] = "https://www.google.com/calendar/event?eid=" + base64.RawURLEncoding.EncodeToString([]byte(e.id+" "+v.calendar))
	out["created"] = e.created.UTC().Format(stampLayout)
	out["updated"] = e.updated.UTC().Format(stampLayout)
	out["creator"] = map[string]any{"email": e.creator}
	out["organizer"] = map[string]any{"email": v.calendar, "displayName": v.title, "self": true}
	out["start"], out["end"] = e.start.render(v.loc), e.end.render(v.loc)
	out["iCalUID"] = e.icalUID
	out["sequence"] = e.sequence
	if _, set := out["eventType"]; !set {
		out["eventType"] = "default"
	}
	if _, set := out["reminders"]; !set {
		out["reminders"] = map[string]any{"useDefault": true}
	}
	return out
}

// isDefault says whether Google leaves a field out: defaults and empty values are not shown.
func isDefault(key string, value any) bool {
	switch v := value.(type) {
	case string:
		return v == "" || key == "transparency" && v == "opaque" || key == "visibility" && v == "default"
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return value == nil
}

// merge lays a patch over fields: objects merge, null clears, everything else replaces. Neither argument is changed.
func merge(base, patch map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = make(map[string]any, len(patch))
	}
	for key, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(out, key)
		case map[string]any:
			old, _ := out[key].(map[string]any)
			out[key] = merge(old, v)
		default:
			out[key] = v
		}
	}
	return out
}
