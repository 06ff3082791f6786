// Package export writes subscriptions as a YAML document and reads it back, and reads the configuration of
// GAS-ICS-Sync.
//
// It guarantees that a written document holds no feed address and no credential, that writing is deterministic, and that
// no error quotes the document, which may hold both. It stores nothing: what a document changes is for its caller.
package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Version is the major version of the document that this package writes.
const Version = 1

// Document is a whole configuration.
type Document struct {
	Version       int     `yaml:"version"`
	Subscriptions []Entry `yaml:"subscriptions"`
	// Notes say what of another program's configuration has no equivalent.
	Notes []string `yaml:"-"`
}

// Entry is one subscription. What it leaves out has its default, but for the feed's address: without one, a known
// subscription keeps its own.
type Entry struct {
	ID   string `yaml:"id,omitempty"`
	Name string `yaml:"name"`
	// Feed is what may be shown of the address; it is not read.
	Feed        string `yaml:"feed,omitempty"`
	URL         string `yaml:"url,omitempty"`
	User        string `yaml:"user,omitempty"`
	Password    string `yaml:"password,omitempty"`
	Bearer      string `yaml:"bearer,omitempty"`
	HeaderName  string `yaml:"header_name,omitempty"`
	HeaderValue string `yaml:"header_value,omitempty"`
	// Account is an id, a name or an address.
	Account  string `yaml:"account,omitempty"`
	Calendar string `yaml:"calendar,omitempty"`
	TimeZone string `yaml:"time_zone,omitempty"`
	// Interval is a duration such as "1h30m".
	Interval string         `yaml:"interval,omitempty"`
	Paused   bool           `yaml:"paused,omitempty"`
	Options  map[string]any `yaml:"options,omitempty"`
	// CalendarName stands for Calendar where another program knows calendars by name.
	CalendarName string `yaml:"-"`
}

// Write makes the document of subscriptions. account names an account for people.
func Write(subscriptions []*calferryv1.Subscription, account func(id string) string) (string, error) {
	doc := Document{Version: Version, Subscriptions: []Entry{}}
	for _, s := range subscriptions {
		options, err := optionsOut(s.GetOptions())
		if err != nil {
			return "", fmt.Errorf("write the options of subscription %s: %w", s.GetId(), err)
		}
		e := Entry{
			ID: s.GetId(), Name: s.GetName(), Feed: s.GetFeedLabel(), Account: account(s.GetTarget().GetAccount()),
			Calendar: s.GetTarget().GetCalendarId(), TimeZone: s.GetCalendarTimeZone(),
			Paused: s.GetState() == calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED, Options: options,
		}
		if every := s.GetInterval().AsDuration(); every > 0 {
			e.Interval = short(every)
		}
		doc.Subscriptions = append(doc.Subscriptions, e)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(doc); err != nil {
		return "", fmt.Errorf("write the document: %w", err)
	}
	return out.String(), encoder.Close()
}

// short writes a duration without the zeros at its end.
func short(d time.Duration) string {
	text := d.String()
	if trimmed, ok := strings.CutSuffix(text, "m0s"); ok {
		text = trimmed + "m"
	}
	if trimmed, ok := strings.CutSuffix(text, "h0m"); ok {
		text = trimmed + "h"
	}
	return text
}

// Read reads a document of Write, or a configuration of GAS-ICS-Sync.
func Read(text string) (*Document, error) {
	if strings.Contains(text, gasFeeds) {
		return readGAS(text)
	}
	doc := new(Document)
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the document is empty")
		}
		return nil, unreadable(err)
	}
	switch {
	case doc.Version == 0:
		return nil, errors.New("the document names no version: begin it with \"version: 1\"")
	case doc.Version != Version:
		return nil, fmt.Errorf("the document has version %d: this version of Calferry reads version %d", doc.Version, Version)
	}
	return doc, nil
}

var lineNumber = regexp.MustCompile(`line \d+`)

var unknownField = regexp.MustCompile(`line \d+: field [a-z_]{1,40} not found`)

// unreadable tells where a document is wrong. The reader's own words quote it, and it may hold an address.
func unreadable(err error) error {
	if field := unknownField.FindString(err.Error()); field != "" {
		return fmt.Errorf("%s: remove it, or look up its name in an export", field)
	}
	if line := lineNumber.FindString(err.Error()); line != "" {
		return fmt.Errorf("%s cannot be read: compare it with an export", line)
	}
	return errors.New("this is neither an export nor a configuration of GAS-ICS-Sync")
}

// Source is the feed that an entry names; nil when it names none.
func (e *Entry) Source() *calferryv1.FeedSource {
	if e.URL == "" {
		return nil
	}
	return &calferryv1.FeedSource{
		Url: e.URL, User: e.User, Password: e.Password, Bearer: e.Bearer, HeaderName: e.HeaderName, HeaderValue: e.HeaderValue,
	}
}

// Every is how often the entry's feed is to be read; 0 when the feed decides.
func (e *Entry) Every() (time.Duration, error) {
	if e.Interval == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(e.Interval)
	if err != nil || d < 0 {
		return 0, errors.New("interval is no duration: write it like 30m or 6h")
	}
	return d, nil
}

// EventOptions are the entry's options; never nil.
func (e *Entry) EventOptions() (*calferryv1.Options, error) { return optionsIn(e.Options) }

// filterWords are the fields of a filter whose values are words of an enumeration.
func filterWords() map[string]string {
	return map[string]string{"mode": "FILTER_MODE_", "match": "FILTER_MATCH_"}
}

func optionsOut(o *calferryv1.Options) (map[string]any, error) {
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(o)
	if err != nil || o == nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	eachFilter(out, func(filter map[string]any) {
		for field, prefix := range filterWords() {
			if word, ok := filter[field].(string); ok {
				filter[field] = strings.ToLower(strings.TrimPrefix(word, prefix))
			}
		}
	})
	return out, nil
}

func optionsIn(in map[string]any) (*calferryv1.Options, error) {
	o := new(calferryv1.Options)
	if len(in) == 0 {
		return o, nil
	}
	data, err := json.Marshal(in)
	if err != nil {
		return nil, errors.New("options cannot be read: compare them with an export")
	}
	var copied map[string]any // the words are changed, and the entry stays as it is
	if err := json.Unmarshal(data, &copied); err != nil {
		return nil, errors.New("options cannot be read: compare them with an export")
	}
	eachFilter(copied, func(filter map[string]any) {
		for field, prefix := range filterWords() {
			if word, ok := filter[field].(string); ok {
				filter[field] = prefix + strings.ToUpper(word)
			}
		}
	})
	if data, err = json.Marshal(copied); err == nil {
		err = protojson.Unmarshal(data, o)
	}
	if err != nil {
		return nil, badOption(copied)
	}
	return o, nil
}

var optionName = regexp.MustCompile(`^[a-z_]{1,40}$`)

// badOption names the first option that cannot be read. Its value is not quoted, and neither is what is no name.
func badOption(in map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		data, err := json.Marshal(map[string]any{name: in[name]})
		if err == nil {
			err = protojson.Unmarshal(data, new(calferryv1.Options))
		}
		field := new(calferryv1.Options).ProtoReflect().Descriptor().Fields().ByTextName(name)
		switch {
		case err == nil:
		case !optionName.MatchString(name):
			return errors.New("options hold a name that is unknown: compare them with an export")
		case field == nil:
			return fmt.Errorf("there is no option %s: look up its name in an export", name)
		default:
			return fmt.Errorf("option %s has a value, or a part, that it cannot have: compare it with an export", name)
		}
	}
	return errors.New("options cannot be read: compare them with an export")
}

func eachFilter(options map[string]any, visit func(map[string]any)) {
	filters, _ := options["filters"].([]any)
	for _, f := range filters {
		if filter, ok := f.(map[string]any); ok {
			visit(filter)
		}
	}
}
