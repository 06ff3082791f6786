package ical

import (
	"strings"
	"time"
	_ "time/tzdata" // zones must not depend on what the machine has installed
)

// Zones finds out which time zones a feed means. It is for one goroutine.
type Zones struct {
	// preferred are tried first when only the rules of a zone are known.
	preferred []*time.Location
	// own are definitions by calendar; defined are the first of each name, for calendars that have none.
	own     map[ownID]*definition
	defined map[string]*definition
	loaded  map[string]*time.Location
	named   map[string]*time.Location
	matched map[matchKey]*time.Location
	built   map[*definition]*time.Location
}

type ownID struct {
	calendar *Calendar
	id       string
}

type matchKey struct {
	zone *definition
	year int
}

// How says how a zone was found.
type How int

// The ways, from sure to lost.
const (
	// ByName: the feed names the zone, in one of the known ways.
	ByName How = iota
	// ByRules: nobody knows the name, and a zone with the same offsets and switches stands in.
	ByRules
	// ByDefinition: no zone has the rules that the feed defines; they are followed as they are.
	ByDefinition
	// ByOffset: only an offset from UTC is known; switches to summer time, if any, are lost.
	ByOffset
	// Unknown: nothing is known.
	Unknown
)

// Zone is what a TZID means.
type Zone struct {
	// Location is nil when How is Unknown.
	Location *time.Location
	How      How
	// Nameless is set for a Location that has no IANA name, such as +05:37 or one that the feed defines.
	Nameless bool
	defined  *definition
}

// NewZones prefers the named zones, in that order, where only rules are known. Unknown names are ignored.
func NewZones(preferred ...string) *Zones {
	z := &Zones{
		own: map[ownID]*definition{}, defined: map[string]*definition{}, loaded: map[string]*time.Location{}, named: map[string]*time.Location{},
		matched: map[matchKey]*time.Location{}, built: map[*definition]*time.Location{},
	}
	for _, name := range preferred {
		if location := z.Name(name); location != nil {
			z.preferred = append(z.preferred, location)
		}
	}
	return z
}

// Add makes a VTIMEZONE of the feed known. The first one with a TZID counts in its calendar, and in those that have none:
// "Customized Time Zone" is another one in each calendar of Outlook's.
func (z *Zones) Add(vtimezone *Component) {
	id := cleanID(vtimezone.Value("TZID"))
	own := ownID{vtimezone.Calendar, id}
	if id == "" || z.own[own] != nil {
		return
	}
	zone := define(vtimezone)
	if zone == nil {
		return
	}
	z.own[own] = zone
	if z.defined[id] == nil {
		z.defined[id] = zone
	}
}

// Resolve finds the zone that a TZID means in a calendar, for times near a moment. UTC is never a guess: when nothing is
// known, the answer is Unknown.
func (z *Zones) Resolve(calendar *Calendar, id string, near time.Time) Zone {
	id = cleanID(id)
	zone := z.own[ownID{calendar, id}]
	if zone == nil {
		zone = z.defined[id]
	}
	location := z.Name(id)
	if location == nil && zone != nil {
		location = z.Name(zone.place)
	}
	if location != nil {
		return Zone{Location: location, How: ByName, defined: zone}
	}
	if zone != nil {
		if location = z.match(zone, near); location != nil {
			return Zone{Location: location, How: ByRules, defined: zone}
		}
		if offset, constant := zone.constant(near); constant {
			return Zone{Location: time.FixedZone("", int(offset/time.Second)), How: ByOffset, Nameless: true, defined: zone}
		}
		if location = z.build(zone); location != nil {
			return Zone{Location: location, How: ByDefinition, Nameless: true, defined: zone}
		}
	}
	if offset, _, ok := leadingOffset(id); ok {
		if location = z.fixed(offset); location != nil {
			return Zone{Location: location, How: ByOffset, defined: zone}
		}
		return Zone{Location: time.FixedZone("", int(offset/time.Second)), How: ByOffset, Nameless: true, defined: zone}
	}
	return Zone{How: Unknown}
}

// Defined is the moment that the feed's own VTIMEZONE gives a wall clock (written as UTC), if the feed
// defines the zone and its definition disagrees with the zone of that name at that moment.
func (zone Zone) Defined(wall, moment time.Time) (at time.Time, differs bool) {
	if zone.defined == nil || zone.Location == nil {
		return time.Time{}, false
	}
	_, seconds := moment.In(zone.Location).Zone()
	own := zone.defined.offset(moment)
	if own == time.Duration(seconds)*time.Second {
		return moment, false
	}
	return wall.Add(-zone.defined.offsetOfWall(wall)), true
}

// Name is the zone with that name in any of the known spellings: IANA (in any case), Windows ids and
// display texts, paths that end in an IANA name, offsets such as UTC+2. Nil if there is none.
func (z *Zones) Name(name string) *time.Location {
	name = cleanID(name)
	if name == "" {
		return nil
	}
	if location, done := z.named[name]; done {
		return location
	}
	location := z.lookUp(name)
	z.named[name] = location
	return location
}

func (z *Zones) lookUp(name string) *time.Location {
	if location := z.iana(name); location != nil {
		return location
	}
	key := strings.ToLower(name)
	if location := z.iana(aliases[key]); location != nil {
		return location
	}
	if location := z.iana(strings.ReplaceAll(key, "-", "/")); location != nil {
		return location
	}
	if location := z.iana(strings.ReplaceAll(key, " ", "_")); location != nil {
		return location
	}
	if utc[key] {
		return time.UTC
	}
	if offset, rest, ok := leadingOffset(name); ok && rest == "" {
		return z.fixed(offset)
	}
	if location := z.windows(windowsZones[key]); location != nil {
		return location
	}
	if location := z.path(key); location != nil {
		return location
	}
	// Older versions of Windows named more places, behind a semicolon.
	shown, _, _ := strings.Cut(key, ";")
	if location := z.windows(windowsTexts[shown]); location != nil {
		return location
	}
	return z.text(shown)
}

// aliases are names of American zones that some calendars write with a hyphen.
var aliases = map[string]string{
	"us-eastern": "America/New_York", "us-central": "America/Chicago", "us-mountain": "America/Denver", "us-pacific": "America/Los_Angeles",
	"us-arizona": "America/Phoenix", "us-alaska": "America/Anchorage", "us-hawaii": "Pacific/Honolulu",
}

// windows is the zone of an entry of the Windows tables. Two places of CLDR 41 have left the offset that
// Windows has for their zones, UTC-07:00 and UTC+06:00, since: others of the same zone stand in.
func (z *Zones) windows(name string) *time.Location {
	switch name {
	case "America/Chihuahua":
		name = "America/Mazatlan"
	case "Asia/Almaty":
		name = "Asia/Bishkek"
	}
	return z.iana(name)
}

// utc are names of UTC that neither IANA nor Windows have.
var utc = map[string]bool{"z": true, "coordinated universal time": true, "greenwich mean time": true, "utc/gmt": true, "gmt/utc": true}

func (z *Zones) iana(name string) *time.Location {
	spelled, known := ianaNames[strings.ToLower(name)]
	if !known || spelled == "Factory" {
		return nil
	}
	if spelled == "UTC" || spelled == "Etc/UTC" {
		return time.UTC
	}
	if location, done := z.loaded[spelled]; done {
		return location
	}
	location, err := time.LoadLocation(spelled)
	if err != nil {
		location = nil
	}
	z.loaded[spelled] = location
	return location
}

// path finds names such as "/freeassociation.sourceforge.net/Tzfile/Europe/Berlin".
func (z *Zones) path(name string) *time.Location {
	parts := strings.Split(name, "/")
	for from := 1; from < len(parts); from++ {
		// One part alone is a name only behind a real path: "Moon/Israel" is not Israel.
		if from == len(parts)-1 && parts[0] != "" && !strings.Contains(name, "://") {
			return nil
		}
		if location := z.iana(strings.Join(parts[from:], "/")); location != nil {
			return location
		}
	}
	return nil
}

// text finds "(UTC+01:00) Amsterdam, Berlin", by the text or by one of its cities.
func (z *Zones) text(name string) *time.Location {
	offset, rest, ok := leadingOffset(name)
	if !ok || !strings.HasPrefix(name, "(") || rest == "" {
		return nil
	}
	// Exchange once had slashes.
	rest = strings.ReplaceAll(rest, " / ", ", ")
	if location := z.windows(windowsTexts[rest]); location != nil {
		return location
	}
	for city := range strings.SplitSeq(rest, ",") {
		location := z.windows(windowsTexts[strings.TrimSpace(city)])
		if location != nil && standardOffset(location) == offset {
			return location
		}
	}
	for city := range strings.SplitSeq(rest, ",") {
		city = strings.ReplaceAll(strings.TrimSpace(city), " ", "_")
		for _, area := range []string{"europe", "america", "asia", "africa", "australia", "pacific", "atlantic", "indian"} {
			if location := z.iana(area + "/" + city); location != nil && standardOffset(location) == offset {
				return location
			}
		}
	}
	return nil
}

// standardOffset is a zone's offset outside of summer time, which is what Windows shows.
func standardOffset(location *time.Location) time.Duration {
	winter := time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC).In(location)
	summer := time.Date(2026, 7, 15, 0, 0, 0, 0, time.UTC).In(location)
	if winter.IsDST() {
		winter = summer
	}
	_, seconds := winter.Zone()
	return time.Duration(seconds) * time.Second
}

// fixed is the IANA zone with a constant offset of whole hours; nil for others.
func (z *Zones) fixed(offset time.Duration) *time.Location {
	hours := int(offset / time.Hour)
	switch {
	case offset%time.Hour != 0 || hours < -12 || hours > 14:
		return nil
	case hours == 0:
		return time.UTC
	default:
		// POSIX counts westwards.
		return z.iana("Etc/GMT" + signed(-hours))
	}
}

func signed(n int) string {
	sign := "+"
	if n < 0 {
		sign, n = "-", -n
	}
	if n >= 10 {
		return sign + "1" + string(rune('0'+n-10))
	}
	return sign + string(rune('0'+n))
}

func cleanID(id string) string {
	id = strings.Trim(id, "\"' \t\r\n")
	if strings.Contains(id, `\`) {
		id = strings.NewReplacer(`\,`, `,`, `\;`, `;`, `\/`, `/`, `\\`, `\`).Replace(id)
	}
	return id
}

// leadingOffset reads "UTC+1", "(GMT-05.30) Somewhere", "+0100" and the like: an offset from UTC at the
// beginning, and what follows it.
func leadingOffset(text string) (offset time.Duration, rest string, ok bool) {
	s := strings.TrimSpace(text)
	bracket := strings.HasPrefix(s, "(")
	s = strings.TrimPrefix(s, "(")
	named := false
	if len(s) >= 3 && (strings.EqualFold(s[:3], "utc") || strings.EqualFold(s[:3], "gmt")) {
		s, named = strings.TrimSpace(s[3:]), true
	}
	if s == "" || (s[0] != '+' && s[0] != '-') {
		if bracket && named && strings.HasPrefix(s, ")") {
			return 0, strings.TrimSpace(s[1:]), true
		}
		return 0, "", false
	}
	negative := s[0] == '-'
	s = s[1:]
	digits := 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	number := s[:digits]
	s = s[digits:]
	minutes := 0
	switch {
	case digits == 4:
		minutes = atoi(number[2:])
		number = number[:2]
	case digits == 0 || digits > 2:
		return 0, "", false
	case len(s) >= 3 && (s[0] == ':' || s[0] == '.') && isDigit(s[1]) && isDigit(s[2]):
		minutes = atoi(s[1:3])
		s = s[3:]
	}
	if minutes > 59 || atoi(number) > 14 {
		return 0, "", false
	}
	offset = time.Duration(atoi(number))*time.Hour + time.Duration(minutes)*time.Minute
	if negative {
		offset = -offset
	}
	if bracket {
		closing := strings.IndexByte(s, ')')
		if closing < 0 {
			return 0, "", false
		}
		s = s[closing+1:]
	} else if s != "" {
		return 0, "", false
	}
	return offset, strings.TrimSpace(s), true
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func atoi(digits string) int {
	n := 0
	for i := range len(digits) {
		n = n*10 + int(digits[i]-'0')
	}
	return n
}
