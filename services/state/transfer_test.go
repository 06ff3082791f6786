package state_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (r *rig) exported() string {
	r.t.Helper()
	res, err := r.client.ExportConfig(r.t.Context(), connect.NewRequest(new(calferryv1.ExportConfigRequest)))
	require.NoError(r.t, err)
	r.hidden("the export", res.Msg.GetYaml())
	return res.Msg.GetYaml()
}

// imported tells for each entry what it did: "name: action".
func (r *rig) imported(req *calferryv1.ImportConfigRequest) []string {
	r.t.Helper()
	res, err := r.client.ImportConfig(r.t.Context(), connect.NewRequest(req))
	require.NoError(r.t, err)
	r.hidden("the import", res.Msg.String())
	var out []string
	for _, s := range res.Msg.GetSubscriptions() {
		line := s.GetName() + ": " + strings.ToLower(strings.TrimPrefix(s.GetAction().String(), "IMPORT_ACTION_"))
		if s.GetAction() == calferryv1.ImportAction_IMPORT_ACTION_UPDATE || s.GetAction() == calferryv1.ImportAction_IMPORT_ACTION_FAILED {
			line += ": " + s.GetDetail()
		}
		out = append(out, line)
	}
	return out
}

func TestImportIsDeclarative(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id := r.create(account, "Term dates")
	_, err := r.client.UpdateSubscription(t.Context(), connect.NewRequest(&calferryv1.UpdateSubscriptionRequest{
		Id: id, Interval: durationpb.New(90 * time.Minute), Options: &calferryv1.Options{TitlePrefix: "School: ", Filters: []*calferryv1.Filter{{
			Mode: calferryv1.FilterMode_FILTER_MODE_EXCLUDE, Field: "summary", Match: calferryv1.FilterMatch_FILTER_MATCH_CONTAINS, Value: "exam",
		}}},
	}))
	require.NoError(t, err)
	r.create(account, "Other")
	doc := r.exported()
	require.Equal(t, doc, r.exported(), "deterministic")
	require.Contains(t, doc, "interval: 1h30m")
	require.Contains(t, doc, "account: "+owner)
	require.Contains(t, doc, "mode: exclude")
	require.Equal(t, []string{"Other: unchanged", "Term dates: unchanged"}, r.imported(&calferryv1.ImportConfigRequest{Document: doc, Prune: true}))
	require.Equal(t, doc, r.exported())

	changed := strings.Replace(doc, "School: ", "Uni: ", 1)
	changed = strings.Replace(changed, "interval: 1h30m", "paused: true", 1)
	want := []string{"Other: unchanged", "Term dates: update: options, interval, pause"}
	require.Equal(t, want, r.imported(&calferryv1.ImportConfigRequest{Document: changed, DryRun: true}))
	require.Equal(t, doc, r.exported(), "a dry run changes nothing")
	require.Equal(t, want, r.imported(&calferryv1.ImportConfigRequest{Document: changed}))
	require.Equal(t, []string{"Other: unchanged", "Term dates: unchanged"}, r.imported(&calferryv1.ImportConfigRequest{Document: changed}), "again, it changes nothing")
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED, r.get(id).GetState())
	rec, err := r.registry().Subscription(t.Context(), id)
	require.NoError(t, err)
	source, err := registry.OpenFeed(r.feedKey, rec.Value)
	require.NoError(t, err)
	require.Equal(t, feedURL, source.GetUrl(), "an entry without an address keeps the stored one")

	// By hand, and by name.
	const own = "version: 1\nsubscriptions:\n" +
		"  - {name: Hut, url: \"https://hut.example/" + secretPath + ".ics\", account: " + owner + ", calendar: " + teamCalendar + "}\n" +
		"  - {name: Other}\n  - {name: Homeless}\n"
	want = []string{"Hut: create", "Other: unchanged", "Homeless: failed: this subscription is new and needs the address of its feed: give it url, or let the command line read it with url_file or url_env", "Term dates: remove"}
	require.Equal(t, want, r.imported(&calferryv1.ImportConfigRequest{Document: own, Prune: true, DryRun: true}))
	require.Equal(t, want, r.imported(&calferryv1.ImportConfigRequest{Document: own, Prune: true}))
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_KEEP, r.get(id).GetState())
	r.eventually("the board", func() bool { return strings.Contains(r.exported(), "name: Hut") })
	require.Equal(t, "Hut: unchanged", r.imported(&calferryv1.ImportConfigRequest{Document: own, Prune: true})[0])
	moved := strings.Replace(own, "hut.example", "new.example", 1)
	require.Equal(t, "Hut: update: feed", r.imported(&calferryv1.ImportConfigRequest{Document: moved})[0])
	elsewhere := strings.Replace(own, teamCalendar, "other@group.calendar.google.com", 1)
	require.Contains(t, r.imported(&calferryv1.ImportConfigRequest{Document: elsewhere})[0], "cannot change")
}

// What may not be meant is told of before it is there, in one line for each entry.
func TestImportWarnsOfTheSameFeedAndName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	entry := "  - {id: ID, name: NAME, url: \"https://hut.example/" + secretPath + ".ics\", account: " + owner + ", calendar: " + teamCalendar + "}\n"
	doc := "version: 1\nsubscriptions:\n"
	for _, one := range [][2]string{{"a", "Hut"}, {"b", "Lodge"}, {"c", "Hut"}} {
		doc += strings.NewReplacer("ID", one[0], "NAME", one[1]).Replace(entry)
	}
	r.connect()
	for _, dry := range []bool{true, false} {
		res, err := r.client.ImportConfig(t.Context(), connect.NewRequest(&calferryv1.ImportConfigRequest{Document: doc, DryRun: dry}))
		require.NoError(t, err)
		r.hidden("the import", res.Msg.String())
		got := res.Msg.GetSubscriptions()
		require.Equal(t, "into "+teamCalendar, got[0].GetDetail())
		require.Contains(t, got[1].GetDetail(), `by the subscription "Hut"`)
		require.Contains(t, got[1].GetDetail(), "twice")
		require.Regexp(t, `by the subscriptions "Hut" .*, "Lodge" .*: its events are there 3 times`, got[2].GetDetail())
		require.Equal(t, 1, strings.Count(got[2].GetDetail(), "has that feed already"))
		require.Contains(t, got[2].GetDetail(), "another subscription has this name")
	}
}

func TestConfigurationOfGASICSSyncIsRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	script, err := os.ReadFile("testdata/gas-ics-sync.gs")
	require.NoError(t, err)
	account := r.connect()
	req := &calferryv1.ImportConfigRequest{Document: string(script), Account: account, CalendarId: teamCalendar}
	require.Equal(t, []string{"School: create", "Sports: create", "Sports (2): create"}, r.imported(req))
	r.eventually("the board", func() bool { return strings.Contains(r.exported(), "Sports (2)") })
	res, err := r.client.ImportConfig(t.Context(), connect.NewRequest(req))
	require.NoError(t, err)
	for _, s := range res.Msg.GetSubscriptions() {
		require.Equal(t, calferryv1.ImportAction_IMPORT_ACTION_UNCHANGED, s.GetAction(), "%s: %s", s.GetName(), s.GetDetail())
	}
	notes := strings.Join(res.Msg.GetNotes(), "\n")
	for _, want := range []string{"addAttendees:", "emailSummary:", "filters, number 3:"} {
		require.Contains(t, notes, want)
	}
	require.NotContains(t, notes, "addEventsToCalendar", "what is at its default needs no word")
	got := r.get(res.Msg.GetSubscriptions()[1].GetId())
	require.Equal(t, 15*time.Minute, got.GetInterval().AsDuration())
	o := got.GetOptions()
	require.Equal(t, []any{"7", "private", "none", true, true}, []any{o.GetColorId(), o.GetVisibility(), o.GetReminders(), o.GetDropPast(), o.GetAttendees()})
	require.Len(t, o.GetFilters(), 2)
	require.Equal(t, "^(?:Exam|Test \\(oral\\))", o.GetFilters()[0].GetValue())
}

func TestCalendarsOfGASICSSyncAreFoundByName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	made, err := r.client.CreateCalendar(t.Context(), connect.NewRequest(&calferryv1.CreateCalendarRequest{Account: account, Summary: "School", TimeZone: "Europe/Vienna"}))
	require.NoError(t, err)
	script := "var sourceCalendars = [['https://a.example/x.ics', 'School'], ['https://a.example/y.ics', 'Nowhere']];"
	got := r.imported(&calferryv1.ImportConfigRequest{Document: script, Account: account})
	require.Equal(t, "School: create", got[0])
	require.Contains(t, got[1], "no calendar of its own that is called \"Nowhere\"")
	list, err := r.client.ListSubscriptions(t.Context(), connect.NewRequest(new(calferryv1.ListSubscriptionsRequest)))
	require.NoError(t, err)
	require.Equal(t, made.Msg.GetCalendar().GetId(), list.Msg.GetSubscriptions()[0].GetCalendarId())
}

func TestAnUnreadableDocumentIsNotQuoted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, doc := range map[string]string{
		"no document":   "",
		"broken":        "version: 1\nsubscriptions:\n  - url: \"" + secretPath + "\n",
		"wrong type":    "version: " + secretPath,
		"unknown field": "version: 1\n" + secretPath + ": 1\n",
		"version":       "version: 2\nsubscriptions: [{url: " + secretPath + "}]",
		"script":        "var sourceCalendars = '" + secretPath + "';",
		"no address":    "var sourceCalendars = [['', '" + secretPath + "']];",
	} {
		err := ask(t.Context(), r.client.ImportConfig, &calferryv1.ImportConfigRequest{Document: doc})
		require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), name)
		r.hidden(name, err.Error())
	}
}
