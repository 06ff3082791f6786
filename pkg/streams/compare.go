package streams

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// DifferError says that NATS holds another definition than Calferry needs.
type DifferError struct {
	Asset  string // "stream FETCH", "consumer workers of stream FETCH", "bucket ledger"
	Field  string // as `nats stream info --json` shows it
	Wanted string
	Found  string
}

func (e *DifferError) Error() string {
	return fmt.Sprintf("%s: %s is %s, wanted %s: run `calferry provision`, or change it by hand where that is refused",
		e.Asset, e.Field, e.Found, e.Wanted)
}

// compare returns the first field, in alphabetical order, that differs between two definitions; nil if none.
// Fields in skip are the operator's choice.
func compare(asset string, wanted, found any, skip ...string) error {
	w, err := fields(wanted)
	if err != nil {
		return err
	}
	f, err := fields(found)
	if err != nil {
		return err
	}
	names := maps.Clone(w)
	maps.Copy(names, f)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if slices.Contains(skip, name) || reflect.DeepEqual(w[name], f[name]) {
			continue
		}
		return &DifferError{Asset: asset, Field: name, Wanted: show(w[name]), Found: show(f[name])}
	}
	return nil
}

// fields turns a definition into the form in which people see it, without the fields that are left out.
func fields(definition any) (map[string]any, error) {
	data, err := json.Marshal(definition)
	if err != nil {
		return nil, fmt.Errorf("streams: encode a definition: %w", err)
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber() // float64 cannot hold nanoseconds exactly
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("streams: decode a definition: %w", err)
	}
	return m, nil
}

func show(v any) string {
	if v == nil {
		return "not set"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
