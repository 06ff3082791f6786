package gcalsim

import (
	"cmp"
	"log/slog"
	"time"
)

// What Google documents or, failing that, what it was seen to do.
const (
	// DefaultUserUnits is the published quota per minute, user and project.
	DefaultUserUnits = 600
	// DefaultProjectUnits is the published quota per minute and project.
	DefaultProjectUnits = 10_000
	// DefaultCalendarCreates is how many new calendars one account got before it was refused, as observed by others.
	DefaultCalendarCreates = 38
	// DefaultTokenTTL is the lifetime of an access token.
	DefaultTokenTTL = 3599 * time.Second
	// DefaultSyncTokenTTL is a guess: Google says only that sync tokens expire.
	DefaultSyncTokenTTL = 7 * 24 * time.Hour
	// DefaultUpdatedMinLimit is how far back updatedMin may reach, as reported by users.
	DefaultUpdatedMinLimit = 30 * 24 * time.Hour
	// DefaultLogSize bounds the request log.
	DefaultLogSize = 200_000
	// DefaultAccount owns the calendars that name no owner.
	DefaultAccount = "owner@example.com"
	// DefaultClientID is the OAuth client; its leading digits are the project number.
	DefaultClientID = "123456789012-calferry.apps.googleusercontent.com"
	// DefaultClientSecret belongs to DefaultClientID.
	DefaultClientSecret = "simulated-secret"
	// DefaultTurnProperty is the private extended property shown as Request.Turn: the one pkg/gcal writes.
	DefaultTurnProperty = "calferryTurn"
)

// Config is what a simulator starts with. The zero value is a Google with the published quotas, no limit per calendar, no
// latency and the real clock.
type Config struct {
	// Now is the clock of everything the simulator decides (quota, expiry, timestamps). Sleeping (Latency, Fault.Delay) is real.
	Now func() time.Time
	// Seed makes noise, jitter and generated ids repeatable.
	Seed uint64
	// Account is the address that owns calendars added without an owner.
	Account string
	// ClientID and ClientSecret are of a desktop OAuth client; see Sim.AddClient for more.
	ClientID, ClientSecret string
	// Limits are the quotas that span calendars.
	Limits Limits
	// CalendarLimit is the write limit of every calendar without one of its own; nil means none. See Sim.SetQuota.
	CalendarLimit Limit
	// Throttle says how calendars refuse; see Sim.SetThrottle.
	Throttle Throttle
	// Latency is how long a request takes; half of it passes before the request is decided. Jitter adds up to that much again.
	Latency, Jitter time.Duration
	// Behaviour decides what is not known for certain about Google.
	Behaviour Behaviour
	// TokenTTL, SyncTokenTTL and UpdatedMinLimit are ages by Now.
	TokenTTL, SyncTokenTTL, UpdatedMinLimit time.Duration
	// TombstoneTTL is when a deleted event leaves listings and gets; its id stays taken. Zero: never.
	TombstoneTTL time.Duration
	// LogSize is the number of requests remembered; the oldest go first.
	LogSize int
	// TurnProperty names the private extended property that Request.Turn shows.
	TurnProperty string
	// Logger hears of every request at debug level. Nil is silent.
	Logger *slog.Logger
}

// WithDefaults returns a copy with every unset field filled in.
func (c Config) WithDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Account = cmp.Or(c.Account, DefaultAccount)
	c.ClientID = cmp.Or(c.ClientID, DefaultClientID)
	c.ClientSecret = cmp.Or(c.ClientSecret, DefaultClientSecret)
	c.TokenTTL = cmp.Or(c.TokenTTL, DefaultTokenTTL)
	c.SyncTokenTTL = cmp.Or(c.SyncTokenTTL, DefaultSyncTokenTTL)
	c.UpdatedMinLimit = cmp.Or(c.UpdatedMinLimit, DefaultUpdatedMinLimit)
	c.LogSize = cmp.Or(c.LogSize, DefaultLogSize)
	c.TurnProperty = cmp.Or(c.TurnProperty, DefaultTurnProperty)
	c.Limits = c.Limits.withDefaults()
	return c
}

func (c Config) client() Client { return Client{ID: c.ClientID, Secret: c.ClientSecret} }

// Behaviour holds the switches for what is not known for certain. The zero value is the likeliest, or the least forgiving, guess.
type Behaviour struct {
	AllowZeroLength          bool `json:"allow_zero_length,omitempty"`          // a timed event may end when it starts
	AllowEmptyAllDay         bool `json:"allow_empty_all_day,omitempty"`        // an all-day event may end on its first day
	RefuseHourlyAsInvalid    bool `json:"refuse_hourly_as_invalid,omitempty"`   // sub-daily rules are 400, not 500
	RefuseStrayExceptionDate bool `json:"refuse_stray_exdate,omitempty"`        // an EXDATE that hits nothing is 400, not ignored
	AllowAnyColor            bool `json:"allow_any_color,omitempty"`            // colours outside 1..11 are kept
	AllowLongText            bool `json:"allow_long_text,omitempty"`            // descriptions over 8,192 characters are kept
	AllowManyProperties      bool `json:"allow_many_properties,omitempty"`      // over 300 properties or 32 kB are kept
	AnyProperty              bool `json:"any_property,omitempty"`               // repeated property filters are OR, not AND
	ClampMaxResults          bool `json:"clamp_max_results,omitempty"`          // maxResults over 2,500 is cut, not refused
	OmitEmptyItems           bool `json:"omit_empty_items,omitempty"`           // an empty list has no items field
	EmptyFirstPage           bool `json:"empty_first_page,omitempty"`           // listings start with an empty page
	ResetExceptions          bool `json:"reset_exceptions,omitempty"`           // a schedule change removes the exceptions it orphans
	ResetAllExceptions       bool `json:"reset_all_exceptions,omitempty"`       // a schedule change removes every exception
	UndeleteWithoutStatus    bool `json:"undelete_without_status,omitempty"`    // a write without status brings a deleted event back
	ForeignCalendarForbidden bool `json:"foreign_calendar_forbidden,omitempty"` // app.created on another's calendar: 403, not 404
	ImportRefusesKnown       bool `json:"import_refuses_known,omitempty"`       // importing a known iCalUID is 409, not an update
	ScopesUnticked           bool `json:"scopes_unticked,omitempty"`            // the consent page starts with nothing chosen
}
