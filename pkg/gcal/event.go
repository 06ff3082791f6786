package gcal

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/calferry/calferry/pkg/event"
)

// Names of the private extended properties that mark our events. A listing can be filtered by
// PropertySubscription.
const (
	PropertySubscription = "calferrySubscription"
	PropertyKey          = "calferryKey"
	PropertyContent      = "calferryContent"
	PropertyTurn         = "calferryTurn"
	propertyOwn          = "calferryOwn"
	propertyCategories   = "calferryCategories"
	propertyPersonal     = "calferryPersonal"
)

// Event is one write.
type Event struct {
	ID   string
	Body *event.Body
	// Props must have a Turn that the event does not carry yet: it is what makes every write move the
	// etag, even one that changes nothing else.
	Props Props
	// Instance says that ID names an instance of a series. Instances have no rule of their own.
	Instance bool
	// Last is the Personal print of our last write of this event: for the first write of an override,
	// that of its master. A Patch then sends of status, colour and reminders only what the feed has
	// changed since. Without it (nil) a Patch sends a colour if there is one, reminders if there are
	// any, and a status only if it is "tentative".
	Last []byte
}

// Props are the private properties of an event, by which it is recognised without its feed.
type Props struct {
	// Subscription is the subscription's id.
	Subscription string
	// Key is the KeyHash of the event's key.
	Key string
	// Content is the content hash of the body, as ContentText writes it.
	Content string
	// Turn is the token of the turn that wrote last.
	Turn string
}

// NewProps makes the properties of a write. content is the body's content hash.
func NewProps(subscription, key string, content []byte, turn string) Props {
	return Props{Subscription: subscription, Key: KeyHash(key), Content: ContentText(content), Turn: turn}
}

// KeyHash is what Props.Key holds for an event key: a key may be longer than a property, and private.
func KeyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base32hex.EncodeToString(sum[:20])
}

// ContentText is what Props.Content holds for a content hash.
func ContentText(hash []byte) string { return hex.EncodeToString(hash) }

// Remote is an event as Google holds it.
type Remote struct {
	ID   string
	Etag string
	// Status is "confirmed", "tentative" or "cancelled", which is what deleted events are.
	Status string
	// Body is what Calferry would own of the event, as Google now has it, the user's changes included.
	// A cancelled instance has no times.
	Body  *event.Body
	Props Props
	// Own is what the function Own said of the body that we wrote last; empty on events of others.
	Own string
	// Private are all private properties, those of other programs included.
	Private map[string]string
	// Personal is the print of what we wrote last, for Event.Last; nil on events of others.
	Personal []byte
	Updated  time.Time
	// RecurringEventID is the id of the series that an instance belongs to.
	RecurringEventID string
}

// Cancelled reports whether the event is deleted.
func (r *Remote) Cancelled() bool { return r.Status == "cancelled" }
