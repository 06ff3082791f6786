// Package config fills configuration structs from flags, environment, one YAML file and defaults, in that
// order of precedence, and can tell where each value came from.
//
// A field is configurable when it has a `flag` tag:
//
//	Workers int           `flag:"fetcher-workers" file:"fetcher.workers" default:"16" help:"feeds read at once"`
//	Token   config.Secret `flag:"google-token" default:"" help:"access token"`
//
// The environment name is the flag in capitals after CALFERRY_, unless an `env` tag says otherwise; the file
// key is the flag, unless a `file` tag says otherwise. A value that may hold a key, as a feed's address does, has the tag
// `hide:"true"`: it is set as any other and never shown. Embedded and nested structs are walked. A [Secret] can also be
// read from a file, by `--google-token-file`, `CALFERRY_GOOGLE_TOKEN_FILE` or the file key with `_file`, so that
// it never needs to stand in a process list.
package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Secret is a string that prints as "(set)" or "(empty)", so that it cannot reach a log by accident.
type Secret string

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return "(empty)"
	}
	return "(set)"
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the value from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

// Source says where a value came from.
type Source string

// The sources, lowest precedence first.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "env"
	FromFlag    Source = "flag"
)

// Setting is one configured value, for `config show`.
type Setting struct {
	Flag   string `json:"flag"`
	Env    string `json:"env"`
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source Source `json:"source"`
	// From names the file and line, or the variable, behind the source.
	From string `json:"from,omitempty"`
	Help string `json:"help"`
}

type field struct {
	flag, env, key, help string
	def                  string
	values               []reflect.Value // one for each struct that has the setting
	secret, hidden       bool
	source               Source
	from                 string
}

// Binding ties structs to a flag set. It is used by one goroutine, before the services start.
type Binding struct {
	flags  *pflag.FlagSet
	fields []*field
	byKey  map[string]*field
	// accepted are keys, ignored are whole sections, that others use.
	accepted, ignored []string
}

// Bind registers a flag for every tagged field of the given struct pointers and sets the defaults. A setting
// that stands in several structs with the same flag, key, type and default is one setting that fills all of
// them. Bind fails on a malformed tag or on a flag that means two things: both are faults of the program.
func Bind(flags *pflag.FlagSet, structs ...any) (*Binding, error) {
	b := &Binding{flags: flags, byKey: map[string]*field{}}
	for _, s := range structs {
		v := reflect.ValueOf(s)
		if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
			return nil, fmt.Errorf("config: %T is no pointer to a struct", s)
		}
		if err := b.walk(v.Elem()); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Accept lets the file have every key of another binding: one file may serve commands that each use a part.
func (b *Binding) Accept(other *Binding) {
	for _, f := range other.fields {
		b.accepted = append(b.accepted, f.key)
	}
}

// IgnoreSections lets the file have unknown keys below these names: they belong to services that this program
// does not run, and one file may serve all.
func (b *Binding) IgnoreSections(names ...string) { b.ignored = append(b.ignored, names...) }

func (b *Binding) walk(v reflect.Value) error {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, ok := sf.Tag.Lookup("flag")
		if !ok {
			if sf.Type.Kind() == reflect.Struct && sf.IsExported() {
				if err := b.walk(v.Field(i)); err != nil {
					return err
				}
			}
			continue
		}
		f := &field{
			flag: name, env: sf.Tag.Get("env"), key: sf.Tag.Get("file"), help: sf.Tag.Get("help"),
			def: sf.Tag.Get("default"), values: []reflect.Value{v.Field(i)}, source: FromDefault,
			secret: sf.Type == reflect.TypeFor[Secret](), hidden: sf.Tag.Get("hide") == "true",
		}
		if f.env == "" {
			f.env = "CALFERRY_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		}
		if f.key == "" {
			f.key = name
		}
		if err := set(v.Field(i), f.def); err != nil {
			return fmt.Errorf("config: default of --%s: %w", name, err)
		}
		if old := b.byKey[f.key]; old != nil && old.same(f) {
			old.values = append(old.values, v.Field(i))
			continue
		} else if old != nil || b.flags.Lookup(name) != nil {
			return fmt.Errorf("config: flag --%s or key %q means two things", name, f.key)
		}
		b.register(f)
		b.fields = append(b.fields, f)
		b.byKey[f.key] = f
	}
	return nil
}

func (f *field) same(other *field) bool {
	return f.flag == other.flag && f.env == other.env && f.def == other.def && f.values[0].Type() == other.values[0].Type()
}

func (b *Binding) register(f *field) {
	usage := f.help + " [" + f.env + "]"
	switch v := f.values[0]; {
	case v.Kind() == reflect.Bool:
		b.flags.Bool(f.flag, v.Bool(), usage)
	case v.Type() == reflect.TypeFor[[]string]():
		b.flags.StringSlice(f.flag, v.Interface().([]string), usage)
	default:
		b.flags.String(f.flag, f.def, usage)
	}
	if f.secret {
		b.flags.String(f.flag+"-file", "", "file with the value of --"+f.flag+" ["+f.env+"_FILE]")
	}
}

// Load fills the structs. The flags must have been parsed; file may be empty; lookup is os.LookupEnv outside
// tests. Errors name the flag, variable or line, and what would be right.
func (b *Binding) Load(file string, lookup func(string) (string, bool)) error {
	if file != "" {
		if err := b.loadFile(file); err != nil {
			return err
		}
	}
	var errs []error
	for _, f := range b.fields {
		errs = append(errs, b.fromEnv(f, lookup), b.fromFlag(f))
	}
	return errors.Join(errs...)
}

func (b *Binding) fromEnv(f *field, lookup func(string) (string, bool)) error {
	if path, ok := lookup(f.env + "_FILE"); ok && f.secret && path != "" {
		if err := f.setFromFile(path, FromEnv, f.env+"_FILE"); err != nil {
			return err
		}
	}
	if s, ok := lookup(f.env); ok {
		if err := f.set(s, FromEnv, f.env); err != nil {
			return err
		}
	}
	return nil
}

func (b *Binding) fromFlag(f *field) error {
	if f.secret {
		if fl := b.flags.Lookup(f.flag + "-file"); fl.Changed {
			if err := f.setFromFile(fl.Value.String(), FromFlag, "--"+f.flag+"-file"); err != nil {
				return err
			}
		}
	}
	fl := b.flags.Lookup(f.flag)
	if !fl.Changed {
		return nil
	}
	if sv, ok := fl.Value.(pflag.SliceValue); ok {
		return f.set(strings.Join(sv.GetSlice(), ","), FromFlag, "--"+f.flag)
	}
	return f.set(fl.Value.String(), FromFlag, "--"+f.flag)
}

func (f *field) setFromFile(path string, src Source, from string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: read the secret: %w", from, err)
	}
	return f.set(strings.TrimRight(string(data), "\r\n"), src, from)
}

func (f *field) set(s string, src Source, from string) error {
	for _, v := range f.values {
		if err := set(v, s); err != nil {
			return fmt.Errorf("%s: %q: %w", from, s, err) // a secret is a string, and takes anything
		}
	}
	f.source, f.from = src, from
	return nil
}

// Source tells where the value of a flag's setting came from.
func (b *Binding) Source(flag string) Source {
	for _, f := range b.fields {
		if f.flag == flag {
			return f.source
		}
	}
	return FromDefault
}

// userinfo is what stands before the host of an address.
var userinfo = regexp.MustCompile(`://[^/@\s]*@`)

// shown is the value without what must not be seen.
func (f *field) shown() string {
	switch v := f.values[0]; {
	case f.hidden && v.IsZero(), f.hidden && v.Kind() == reflect.Slice && v.Len() == 0:
		return Secret("").String()
	case f.hidden:
		return Secret("hidden").String()
	default:
		return userinfo.ReplaceAllString(fmt.Sprint(v.Interface()), "://(set)@")
	}
}

// Settings lists every value, secrets hidden, in the order of the structs.
func (b *Binding) Settings() []Setting {
	out := make([]Setting, 0, len(b.fields))
	for _, f := range b.fields {
		out = append(out, Setting{
			Flag: f.flag, Env: f.env, Key: f.key, Help: f.help,
			Value: f.shown(), Source: f.source, From: f.from,
		})
	}
	return out
}

func set(v reflect.Value, s string) error {
	switch v.Interface().(type) {
	case time.Duration:
		if s == "" {
			s = "0s"
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			return errors.New("wants a duration such as 30s or 5m")
		}
		v.SetInt(int64(d))
		return nil
	case []string:
		var items []string
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		v.Set(reflect.ValueOf(items))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		if s == "" {
			s = "false"
		}
		x, err := strconv.ParseBool(s)
		if err != nil {
			return errors.New("wants true or false")
		}
		v.SetBool(x)
	case reflect.Int, reflect.Int32, reflect.Int64:
		if s == "" {
			s = "0"
		}
		x, err := strconv.ParseInt(s, 10, v.Type().Bits())
		if err != nil {
			return errors.New("wants a whole number")
		}
		v.SetInt(x)
	case reflect.Float64:
		if s == "" {
			s = "0"
		}
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return errors.New("wants a number")
		}
		v.SetFloat(x)
	default:
		return fmt.Errorf("type %s is not configurable", v.Type())
	}
	return nil
}
