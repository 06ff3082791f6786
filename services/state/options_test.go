package state_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// everyOption has a value in every field there is.
func everyOption(t *testing.T) *calferryv1.Options {
	t.Helper()
	o := &calferryv1.Options{
		DefaultZone: "Asia/Tokyo", TitlePrefix: "School: ", TitleTemplate: "{summary}, {location}", ColorId: "3", Visibility: "confidential", Busy: "free",
		Reminders: "none", StripDescription: true, StripLocation: true, HorizonDays: 90, DropPast: true, WindowPastDays: 7, WindowFutureDays: 365,
		FeedWins: true, AllDayFree: true, Attendees: true, ZeroLengthMinutes: 30, Noise: []string{`^Last updated .*`, ` \(as of <now>\) `},
		CategoryColors: []*calferryv1.CategoryColor{{Category: "Exams & tests", ColorId: "11"}, {Category: "Sport", ColorId: "2"}},
		Filters: []*calferryv1.Filter{
			{Mode: calferryv1.FilterMode_FILTER_MODE_INCLUDE, Field: "summary", Match: calferryv1.FilterMatch_FILTER_MATCH_REGEX, Value: `^"A`},
			{Mode: calferryv1.FilterMode_FILTER_MODE_EXCLUDE, Field: "uid", Match: calferryv1.FilterMatch_FILTER_MATCH_EQUALS, Value: "1"},
			{Mode: calferryv1.FilterMode_FILTER_MODE_EXCLUDE, Field: "categories", Match: calferryv1.FilterMatch_FILTER_MATCH_CONTAINS, Value: "x"},
		},
	}
	fields := o.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		require.True(t, o.ProtoReflect().Has(fields.Get(i)), "this test does not know the option %s", fields.Get(i).Name())
	}
	return o
}

var (
	formTag     = regexp.MustCompile(`(?s)<input ([^>]*)>|<select ([^>]*)>(.*?)</select>|<textarea ([^>]*)>(.*?)</textarea>`)
	formName    = regexp.MustCompile(`(?:^| )name="([^"]*)"`)
	formValue   = regexp.MustCompile(`(?:^| )value="([^"]*)"`)
	formChosen  = regexp.MustCompile(`<option value="([^"]*)" selected>`)
	formLabel   = regexp.MustCompile(`<label[^>]* for="([^"]*)"`)
	formElement = regexp.MustCompile(`(?:^| )id="([^"]*)"`)
)

// formOf is what a browser would send of a page's form as it stands. Every field must have a label.
func formOf(t *testing.T, page string) url.Values {
	t.Helper()
	_, page, found := strings.Cut(page, `<form class="panel sheet"`)
	require.True(t, found, "the page has no form")
	labels := map[string]bool{}
	for _, label := range formLabel.FindAllStringSubmatch(page, -1) {
		labels[label[1]] = true
	}
	values := url.Values{}
	attribute := func(what *regexp.Regexp, in string) string {
		if match := what.FindStringSubmatch(in); match != nil {
			return html.UnescapeString(match[1])
		}
		return ""
	}
	for _, tag := range formTag.FindAllStringSubmatch(page, -1) {
		attributes := tag[1] + tag[2] + tag[4]
		name, value := attribute(formName, attributes), attribute(formValue, attributes)
		if name == "" {
			continue
		}
		require.True(t, labels[attribute(formElement, attributes)], "the field %s has no label", name)
		switch {
		case tag[2] != "":
			value = attribute(formChosen, tag[3])
		case tag[4] != "":
			value = html.UnescapeString(tag[5])
		case strings.Contains(attributes, `type="checkbox"`) && !strings.Contains(attributes, " checked"):
			continue
		}
		values.Add(name, value)
	}
	return values
}

// What the settings page shows is what is stored, for every option: saving it untouched changes nothing.
func TestEveryOptionGoesThroughTheSettingsPage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	want := everyOption(t)
	_, err := r.client.UpdateSubscription(t.Context(), connect.NewRequest(&calferryv1.UpdateSubscriptionRequest{Id: id, Options: want}))
	require.NoError(t, err)
	path := "/subscriptions/" + id + "/edit"
	_, page := r.page(path)
	form := formOf(t, page)
	status, answer := r.send(http.MethodPost, path, form.Encode())
	require.Equal(t, http.StatusOK, status, text(answer))
	require.True(t, proto.Equal(want, r.get(id).GetOptions()), "%v", r.get(id).GetOptions())

	// What is typed wrongly is told and kept.
	form.Set("noise", "fine\r\n(\r\n")
	form["category"][0] = "Tests"
	status, page = r.send(http.MethodPost, path, form.Encode())
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, text(page), "“Take out of descriptions”, number 2, is no regular expression")
	require.Equal(t, form["category"], formOf(t, page)["category"])
	form.Set("noise", "")
	form["category-color"][0] = ""
	status, page = r.send(http.MethodPost, path, form.Encode())
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, text(page), "“Colours of categories”, number 1, has no colour: choose 1 to 11")
	form["category-color"][0], form["category"][0] = "3", ""
	status, page = r.send(http.MethodPost, path, form.Encode())
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, text(page), "“Colours of categories”, number 1, names no category")
	require.Equal(t, form["category-color"], formOf(t, page)["category-color"], "the line is kept")
	form["category"][0] = "Tests"
	for name, wrong := range map[string][2]string{
		"zero-length": {"1441", "“Minutes of events without length” is 1441: at most 1440"},
		"horizon":     {"99999", "“Expand odd rules for days” is 99999"},
		"zone":        {"Moon/Base", "“Zone of times without one” is"},
	} {
		before := form.Get(name)
		form.Set(name, wrong[0])
		status, page = r.send(http.MethodPost, path, form.Encode())
		require.Equal(t, http.StatusUnprocessableEntity, status)
		require.Contains(t, html.UnescapeString(text(page)), wrong[1])
		require.Contains(t, page, wrong[1][len("“"):strings.Index(wrong[1], "”")], "the form has that label")
		form.Set(name, before)
	}
	require.True(t, proto.Equal(want, r.get(id).GetOptions()))

	// Cleared fields are options that are gone.
	cleared := url.Values{}
	for name, values := range formOf(t, page) {
		switch name {
		case "filter-mode", "filter-field", "filter-match":
			cleared[name] = values
		default:
			cleared[name] = make([]string, len(values))
		}
	}
	status, page = r.send(http.MethodPost, path, cleared.Encode())
	require.Equal(t, http.StatusOK, status, text(page))
	require.True(t, proto.Equal(&calferryv1.Options{}, r.get(id).GetOptions()), "%v", r.get(id).GetOptions())
}

func TestEveryOptionGoesThroughTheExport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	want := everyOption(t)
	_, err := r.client.UpdateSubscription(t.Context(), connect.NewRequest(&calferryv1.UpdateSubscriptionRequest{Id: id, Options: want}))
	require.NoError(t, err)
	doc := r.exported()
	require.Contains(t, doc, "category_colors:\n")
	require.Contains(t, doc, "noise:\n")
	require.Equal(t, []string{"Term dates: unchanged"}, r.imported(&calferryv1.ImportConfigRequest{Document: doc}))
	_, err = r.client.UpdateSubscription(t.Context(), connect.NewRequest(&calferryv1.UpdateSubscriptionRequest{Id: id, Options: &calferryv1.Options{}}))
	require.NoError(t, err)
	require.Equal(t, []string{"Term dates: update: options"}, r.imported(&calferryv1.ImportConfigRequest{Document: doc}))
	require.True(t, proto.Equal(want, r.get(id).GetOptions()), "%v", r.get(id).GetOptions())
	unknown := strings.Replace(doc, "attendees:", "atendees:", 1)
	require.Equal(t, "Term dates: failed: there is no option atendees: look up its name in an export", r.imported(&calferryv1.ImportConfigRequest{Document: unknown})[0])
	wrong := strings.Replace(doc, "attendees: true", "attendees: "+secretPath, 1)
	require.Equal(t, "Term dates: failed: option attendees has a value, or a part, that it cannot have: compare it with an export", r.imported(&calferryv1.ImportConfigRequest{Document: wrong})[0])
	hidden := strings.Replace(doc, "attendees:", secretPath+":", 1)
	require.Contains(t, r.imported(&calferryv1.ImportConfigRequest{Document: hidden})[0], "options hold a name that is unknown")
	broken := strings.Replace(doc, "Last updated .*", "(", 1)
	require.Contains(t, r.imported(&calferryv1.ImportConfigRequest{Document: broken})[0], "Term dates: failed: noise 1 is no regular expression")
	require.True(t, proto.Equal(want, r.get(id).GetOptions()))
}
