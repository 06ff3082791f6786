package gcal

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"

	"github.com/calferry/calferry/pkg/event"
)

// Status, colour and reminders are ours at the first write; later the user may change them in Google,
// and what the user changed stays. A print of what we wrote tells a change of the feed from one of the
// user.

// partSize is the length of each part of a print. A false match would cost one late colour.
const partSize = 4

// Personal is the print of body's status, colour and reminders. Keep it with the event and hand it back
// as Event.Last.
func Personal(body *event.Body) []byte {
	reminders, _ := json.Marshal(body.Reminders) // strings, numbers and booleans always encode
	var out []byte
	for _, part := range [][]byte{[]byte(body.Status), []byte(body.ColorID), reminders} {
		sum := sha256.Sum256(part)
		out = append(out, sum[:partSize]...)
	}
	return out
}

// personal says which of the three fields a write carries.
type personal struct{ status, color, reminders bool }

// all is for events that are new to Google, or are brought back: nothing of the user's is in them.
var all = personal{status: true, color: true, reminders: true}

// changed compares body with the print of the last write.
func changed(body *event.Body, last []byte) personal {
	now := Personal(body)
	if len(last) != len(now) {
		return personal{
			status:    body.Status == "tentative",
			color:     body.ColorID != "",
			reminders: body.Reminders != nil && len(body.Reminders.Overrides) > 0,
		}
	}
	differs := func(part int) bool {
		return !bytes.Equal(now[part*partSize:(part+1)*partSize], last[part*partSize:(part+1)*partSize])
	}
	return personal{status: differs(0), color: differs(1), reminders: differs(2)}
}
