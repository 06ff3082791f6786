package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// flagError says what a flag wants where the library would quote the parser that failed.
func flagError(err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	var wants string
	switch bad.GetFlag().Value.Type() {
	case "uint32":
		wants = "a whole number, 0 or more"
	case "int":
		wants = "a whole number"
	case "float64":
		wants = "a number"
	case "bool":
		wants = "true or false"
	case "duration":
		wants = "a duration such as 90s or 10m"
	default:
		return err // what is our own says it itself
	}
	if errors.Is(err, strconv.ErrRange) {
		wants += ", and a smaller one"
	}
	return fmt.Errorf("--%s %s: wants %s", bad.GetFlag().Name, bad.GetValue(), wants)
}

// spanFlag is a duration that is not negative.
type spanFlag struct{ d *time.Duration }

// spanVar adds such a flag; it is 0 when not given.
func spanVar(flags *pflag.FlagSet, d *time.Duration, name, usage string) {
	flags.Var(spanFlag{d}, name, usage)
}

func (f spanFlag) String() string {
	if f.d == nil || *f.d == 0 {
		return ""
	}
	return f.d.String()
}

func (f spanFlag) Type() string { return "duration" }

func (f spanFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("negative")
	}
	*f.d = d
	return err
}
