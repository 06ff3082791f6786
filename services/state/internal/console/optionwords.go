package console

import (
	"errors"
	"strings"

	mapping "github.com/calferry/calferry/pkg/plan"
)

// optionLabels are what the form calls the options that can be wrong.
var optionLabels = map[string]string{
	"visibility":          "Visibility",
	"busy":                "Show me as",
	"reminders":           "Reminders",
	"default_zone":        "Zone of times without one",
	"color_id":            "Colour",
	"horizon_days":        "Expand odd rules for days",
	"zero_length_minutes": "Minutes of events without length",
	"filters":             "Filters",
	"filter":              "Filters",
	"category_colors":     "Colours of categories",
	"noise":               "Take out of descriptions",
}

// optionTrouble tells of an option that cannot be followed by the form's name for it; empty for other errors.
func optionTrouble(err error) string {
	wrong, ok := errors.AsType[*mapping.OptionError](err)
	if !ok {
		return ""
	}
	name, number, listed := strings.Cut(wrong.Option, " ")
	label := optionLabels[name]
	if label == "" {
		return ""
	}
	if listed {
		return "“" + label + "”, number " + number + ", " + wrong.Reason.Error()
	}
	return "“" + label + "” " + wrong.Reason.Error()
}
