package state_test

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state"
	"github.com/calferry/calferry/services/state/internal/api"
)

// hasTurn tells whether a message waits in the FETCH queue.
func (r *rig) hasTurn(id string) bool {
	stream, err := r.js.Stream(r.t.Context(), streams.StreamFetch)
	require.NoError(r.t, err)
	_, err = stream.GetLastMsgForSubject(r.t.Context(), streams.PrefixFetch+"."+id)
	return err == nil
}

// turnOf is the place of the subscription's message in the FETCH queue: another one when a turn was started since.
func (r *rig) turnOf(id string) uint64 {
	r.t.Helper()
	stream, err := r.js.Stream(r.t.Context(), streams.StreamFetch)
	require.NoError(r.t, err)
	msg, err := stream.GetLastMsgForSubject(r.t.Context(), streams.PrefixFetch+"."+id)
	require.NoError(r.t, err)
	return msg.Sequence
}

// takeTurn removes the FETCH message, as a fetcher that is done does.
func (r *rig) takeTurn(id string) {
	stream, err := r.js.Stream(r.t.Context(), streams.StreamFetch)
	require.NoError(r.t, err)
	msg, err := stream.GetLastMsgForSubject(r.t.Context(), streams.PrefixFetch+"."+id)
	require.NoError(r.t, err)
	require.NoError(r.t, stream.DeleteMsg(r.t.Context(), msg.Sequence))
}

func TestSubscriptionIsCreatedAndItsSecretsStay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id := r.create(account, "Term dates")

	status := r.get(id)
	require.Equal(t, "Term dates", status.GetName())
	require.Equal(t, "school.example/…/term.ics", status.GetFeedLabel())
	require.Equal(t, "Europe/Vienna", status.GetCalendarTimeZone(), "asked of Google")
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, status.GetHealth().GetStatus())
	require.True(t, r.hasTurn(id))

	rec, err := r.registry().Subscription(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "4242", rec.Value.GetTarget().GetProject())
	require.Equal(t, "1001", rec.Value.GetTarget().GetPaceUser())
	require.Equal(t, teamCalendar, rec.Value.GetTarget().GetCalendarId())
	require.False(t, rec.Value.GetLocalFeed())
	r.hidden("the record", rec.Value.String())
	feed, err := registry.OpenFeed(r.feedKey, rec.Value)
	require.NoError(t, err)
	require.Equal(t, feedURL, feed.GetUrl())
	acc, err := r.registry().Account(t.Context(), account)
	require.NoError(t, err)
	r.hidden("the account's record", acc.Value.String())
}

func TestPrimaryIsResolvedToTheAccountsAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	res, err := r.client.CreateSubscription(t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
		Account: r.connect(), CalendarId: "primary", Feed: &calferryv1.FeedSource{Url: "webcal://a.example/x.ics"},
	}))
	require.NoError(t, err)
	require.Equal(t, owner, res.Msg.GetSubscription().GetCalendarId())
	require.Equal(t, "a.example/x.ics", res.Msg.GetSubscription().GetName(), "named after the feed")
}

func TestSameFeedAndNameAreWarnedOf(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	create := func(name, address string) (string, []string) {
		res, err := r.client.CreateSubscription(t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
			Name: name, Account: account, CalendarId: teamCalendar, Feed: &calferryv1.FeedSource{Url: address},
		}))
		require.NoError(t, err)
		r.hidden("the warnings", res.Msg.String())
		return res.Msg.GetSubscription().GetId(), res.Msg.GetWarnings()
	}
	first, warnings := create("Terms", feedURL)
	require.Empty(t, warnings)
	_, warnings = create("Hut", "https://hut.example/hut.ics")
	require.Empty(t, warnings)
	_, warnings = create("terms", "https://hut.example/other.ics")
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], `another subscription has this name: "Terms" (`+first+")")
	for n := range 7 {
		_, warnings = create(strconv.Itoa(n), feedURL)
	}
	require.Len(t, warnings, 1, "one line, however many there are")
	require.Contains(t, warnings[0], `by the subscriptions "0" (`)
	require.Contains(t, warnings[0], "and 2 more: its events are there 8 times")
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	require.NoError(t, r.sim.AddCalendar("readonly@group.calendar.google.com", "UTC", gcalsim.OwnedBy("eve@example.com")))
	r.sim.SetRole("readonly@group.calendar.google.com", owner, "reader")
	good := func() *calferryv1.CreateSubscriptionRequest {
		return &calferryv1.CreateSubscriptionRequest{
			Account: account, CalendarId: teamCalendar, Feed: &calferryv1.FeedSource{Url: feedURL},
		}
	}
	tests := map[string]struct {
		change func(*calferryv1.CreateSubscriptionRequest)
		code   connect.Code
		text   string
	}{
		"no feed":        {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed = nil }, connect.CodeInvalidArgument, "address"},
		"empty address":  {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.Url = " " }, connect.CodeInvalidArgument, "copy it"},
		"other scheme":   {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.Url = "ftp://" + secretPath }, connect.CodeInvalidArgument, "https://"},
		"no scheme":      {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.Url = "school.example/" + secretPath + ".ics" }, connect.CodeInvalidArgument, "https://"},
		"no address":     {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.Url = "notaurl" }, connect.CodeInvalidArgument, "https://"},
		"no host":        {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.Url = "https:///" + secretPath }, connect.CodeInvalidArgument, "https://"},
		"a port alone":   {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.Url = "https://:443/" + secretPath }, connect.CodeInvalidArgument, "https://"},
		"file scheme":    {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.Url = "file:///etc/" + secretPath }, connect.CodeInvalidArgument, "--feed-dir"},
		"unreadable":     {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.Url = "https://%zz/" + secretPath }, connect.CodeInvalidArgument, "https://"},
		"a file":         {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.Url = "/etc/" + secretPath }, connect.CodeInvalidArgument, "--feed-dir"},
		"header break":   {func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.HeaderValue = "a\r\nb" }, connect.CodeInvalidArgument, "line break"},
		"no account":     {func(q *calferryv1.CreateSubscriptionRequest) { q.Account = "" }, connect.CodeInvalidArgument, "connect one"},
		"other account":  {func(q *calferryv1.CreateSubscriptionRequest) { q.Account = "nobody" }, connect.CodeNotFound, "look at the list"},
		"bad zone":       {func(q *calferryv1.CreateSubscriptionRequest) { q.CalendarTimeZone = "Mars/Olympus" }, connect.CodeInvalidArgument, "IANA"},
		"short interval": {func(q *calferryv1.CreateSubscriptionRequest) { q.Interval = durationpb.New(time.Second) }, connect.CodeInvalidArgument, "1m0s"},
		"bad options":    {func(q *calferryv1.CreateSubscriptionRequest) { q.Options = &calferryv1.Options{Busy: "maybe"} }, connect.CodeInvalidArgument, "busy"},
		"bad filter": {func(q *calferryv1.CreateSubscriptionRequest) {
			q.Options = &calferryv1.Options{Filters: []*calferryv1.Filter{{
				Mode: calferryv1.FilterMode_FILTER_MODE_INCLUDE, Field: "summary", Match: calferryv1.FilterMatch_FILTER_MATCH_REGEX, Value: "(",
			}}}
		}, connect.CodeInvalidArgument, "filter 1"},
		"bad noise": {func(q *calferryv1.CreateSubscriptionRequest) { q.Options = &calferryv1.Options{Noise: []string{"("}} }, connect.CodeInvalidArgument, "noise 1"},
		"bad category colour": {func(q *calferryv1.CreateSubscriptionRequest) {
			q.Options = &calferryv1.Options{CategoryColors: []*calferryv1.CategoryColor{{Category: "Exam", ColorId: "tomato"}}}
		}, connect.CodeInvalidArgument, "choose 1 to 11"},
		"unknown calendar": {func(q *calferryv1.CreateSubscriptionRequest) { q.CalendarId = "gone@group.calendar.google.com" }, connect.CodeNotFound, "share it"},
		"read-only calendar": {
			func(q *calferryv1.CreateSubscriptionRequest) { q.CalendarId = "readonly@group.calendar.google.com" },
			connect.CodePermissionDenied, "make changes to events",
		},
	}
	for name, test := range tests {
		q := good()
		test.change(q)
		_, err := r.client.CreateSubscription(t.Context(), connect.NewRequest(q))
		require.Equal(t, test.code, connect.CodeOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, test.text, name)
		r.hidden(name, err.Error())
	}
	list, err := r.client.ListSubscriptions(t.Context(), connect.NewRequest(new(calferryv1.ListSubscriptionsRequest)))
	require.NoError(t, err)
	require.Empty(t, list.Msg.GetSubscriptions())
}

func TestPrivateAddressesNeedPermission(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *state.Config) { c.LocalFeeds = true })
	account := r.connect()
	create := func(address string) (*connect.Response[calferryv1.CreateSubscriptionResponse], error) {
		return r.client.CreateSubscription(t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
			Account: account, CalendarId: teamCalendar, Feed: &calferryv1.FeedSource{Url: address},
		}))
	}
	res, err := create("http://10.0.0.7/hut.ics")
	require.NoError(t, err)
	rec, err := r.registry().Subscription(t.Context(), res.Msg.GetSubscription().GetId())
	require.NoError(t, err)
	require.True(t, rec.Value.GetLocalFeed())
	_, err = create("/srv/feeds/hut.ics")
	require.ErrorContains(t, err, "--feed-dir", "files of the machine are no private addresses")
}

func TestFilesBelowTheFeedDirectoryNeedNoPermission(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, func(c *state.Config) { c.FeedDir = dir })
	account := r.connect()
	create := func(address string) (*connect.Response[calferryv1.CreateSubscriptionResponse], error) {
		return r.client.CreateSubscription(t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
			Account: account, CalendarId: teamCalendar, Feed: &calferryv1.FeedSource{Url: address},
		}))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hut.ics"), nil, 0o600))
	for _, address := range []string{filepath.Join(dir, "hut.ics"), "file://" + filepath.Join(dir, "hut.ics"), "hut.ics"} {
		res, err := create(address)
		require.NoError(t, err, address)
		require.Equal(t, "hut.ics", res.Msg.GetSubscription().GetFeedLabel())
		rec, err := r.registry().Subscription(t.Context(), res.Msg.GetSubscription().GetId())
		require.NoError(t, err)
		require.False(t, rec.Value.GetLocalFeed(), "the fetcher holds it to the directory")
	}
	for _, address := range []string{"notaurl", "school.example/" + secretPath + ".ics", "file:///etc/passwd", "../hut.ics", dir, "/etc/passwd"} {
		_, err := create(address)
		require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), address)
		require.ErrorContains(t, err, "--feed-dir")
		r.hidden(address, err.Error())
		require.NotEmpty(t, api.Info(err).GetHint())
	}
	// Where only the fetchers have the directory, the name decides.
	require.NoError(t, os.RemoveAll(dir))
	_, err := create(filepath.Join(dir, "hut.ics"))
	require.NoError(t, err)
	_, err = create("/etc/passwd")
	require.ErrorContains(t, err, "--feed-dir")
}

// What an earlier version showed of an address is hidden when the service starts.
func TestLabelsThatShowTooMuchAreMended(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	leaking := "school.example/…/" + secretPath + ".ics"
	named, unnamed, fine := r.create(account, "Term dates"), r.create(account, "x"), r.create(account, "Fine")
	for id, name := range map[string]string{named: "Term dates", unnamed: leaking} {
		_, err := r.registry().UpdateSubscription(t.Context(), id, func(s *calferryv1.Subscription) error {
			s.FeedLabel, s.Name = leaking, name
			return nil
		})
		require.NoError(t, err)
	}
	before, err := r.registry().Subscription(t.Context(), fine)
	require.NoError(t, err)
	next, err := state.New(state.Config{HandlerOnly: true}, state.Deps{NATS: r.nc})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- next.Run(ctx) }()
	r.eventually("the labels", func() bool {
		return r.get(named).GetFeedLabel() == "school.example/…" && r.get(unnamed).GetFeedLabel() == "school.example/…"
	})
	require.Equal(t, "school.example/…", r.get(unnamed).GetName(), "it was named after the feed")
	require.Equal(t, "Term dates", r.get(named).GetName())
	after, err := r.registry().Subscription(t.Context(), fine)
	require.NoError(t, err)
	require.Equal(t, before.Revision, after.Revision)
	stop()
	require.NoError(t, <-ended)
	r.exported()
}

func TestListIsPagedFilteredAndStable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	ids := map[string]string{}
	for _, name := range []string{"delta", "Alpha", "charlie", "bravo", "echo"} {
		ids[name] = r.create(account, name)
	}
	var names []string
	token := ""
	for page := 0; ; page++ {
		res, err := r.client.ListSubscriptions(t.Context(), connect.NewRequest(&calferryv1.ListSubscriptionsRequest{PageSize: 2, PageToken: token}))
		require.NoError(t, err)
		require.EqualValues(t, 5-min(page, 1), res.Msg.GetTotal())
		for _, s := range res.Msg.GetSubscriptions() {
			names = append(names, s.GetName())
		}
		if page == 0 {
			// The one that ended the page goes away between two pages.
			r.forget(ids["bravo"])
			r.eventually("the removal", func() bool {
				res, err := r.client.ListSubscriptions(t.Context(), connect.NewRequest(new(calferryv1.ListSubscriptionsRequest)))
				return err == nil && res.Msg.GetTotal() == 4
			})
		}
		if token = res.Msg.GetNextPageToken(); token == "" {
			break
		}
	}
	require.Equal(t, []string{"Alpha", "bravo", "charlie", "delta", "echo"}, names)

	_, err := r.client.PauseSubscription(t.Context(), connect.NewRequest(&calferryv1.PauseSubscriptionRequest{Id: ids["echo"]}))
	require.NoError(t, err)
	for want, q := range map[string]*calferryv1.ListSubscriptionsRequest{
		"charlie": {Query: "CHARL"},
		"echo":    {Status: calferryv1.Status_STATUS_PAUSED},
	} {
		res, err := r.client.ListSubscriptions(t.Context(), connect.NewRequest(q))
		require.NoError(t, err)
		require.Len(t, res.Msg.GetSubscriptions(), 1, want)
		require.Equal(t, want, res.Msg.GetSubscriptions()[0].GetName())
	}
	_, err = r.client.ListSubscriptions(t.Context(), connect.NewRequest(&calferryv1.ListSubscriptionsRequest{PageToken: "nonsense"}))
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
}

func TestPauseHaltsAndResumeStarts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	subject := streams.PrefixChanges + "." + streams.ChangesKey(streams.LaneToken("4242", teamCalendar), id)
	_, err := r.js.Publish(t.Context(), subject, []byte("a ChangeSet that waits"))
	require.NoError(t, err)

	res, err := r.client.PauseSubscription(t.Context(), connect.NewRequest(&calferryv1.PauseSubscriptionRequest{Id: id}))
	require.NoError(t, err)
	require.Equal(t, calferryv1.Status_STATUS_PAUSED, res.Msg.GetSubscription().GetHealth().GetStatus())
	changes, err := r.js.Stream(t.Context(), streams.StreamChanges)
	require.NoError(t, err)
	_, err = changes.GetLastMsgForSubject(t.Context(), subject)
	require.Error(t, err, "what waited is taken back")

	_, err = r.client.SyncSubscription(t.Context(), connect.NewRequest(&calferryv1.SyncSubscriptionRequest{Id: id}))
	require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err))
	r.takeTurn(id)
	_, err = r.client.ResumeSubscription(t.Context(), connect.NewRequest(&calferryv1.ResumeSubscriptionRequest{Id: id}))
	require.NoError(t, err)
	require.True(t, r.hasTurn(id))
	r.takeTurn(id)
	_, err = r.client.SyncSubscription(t.Context(), connect.NewRequest(&calferryv1.SyncSubscriptionRequest{Id: id}))
	require.NoError(t, err)
	require.True(t, r.hasTurn(id))
}

func TestUpdateChangesOnlyWhatIsSet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	_, err := r.client.UpdateSubscription(t.Context(), connect.NewRequest(&calferryv1.UpdateSubscriptionRequest{
		Id: id, Options: &calferryv1.Options{TitlePrefix: "School: "},
	}))
	require.NoError(t, err)
	_, err = r.client.UpdateSubscription(t.Context(), connect.NewRequest(&calferryv1.UpdateSubscriptionRequest{
		Id: id, Name: "Terms", Interval: durationpb.New(time.Hour),
	}))
	require.NoError(t, err)
	status := r.get(id)
	require.Equal(t, "Terms", status.GetName())
	require.Equal(t, "School: ", status.GetOptions().GetTitlePrefix())
	require.Equal(t, time.Hour, status.GetInterval().AsDuration())
	require.Equal(t, "school.example/…/term.ics", status.GetFeedLabel())
}

func TestRemovalIsAWishThatTheFetcherFulfils(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id := r.create(account, "Term dates")
	r.fetch(id, 1, func(*calferryv1.SyncReport) {})
	r.eventually("the report", func() bool { return r.get(id).GetHealth().GetSync() == 1 })
	_, err := r.client.RemoveAccount(t.Context(), connect.NewRequest(&calferryv1.RemoveAccountRequest{Id: account}))
	require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err))
	require.ErrorContains(t, err, "Term dates")

	r.takeTurn(id)
	res, err := r.client.RemoveSubscription(t.Context(), connect.NewRequest(&calferryv1.RemoveSubscriptionRequest{Id: id, Purge: true}))
	require.NoError(t, err)
	require.Equal(t, calferryv1.Status_STATUS_REMOVING, res.Msg.GetSubscription().GetHealth().GetStatus())
	require.True(t, r.hasTurn(id))
	for _, refuse := range []func() error{
		func() error {
			_, err := r.client.ResumeSubscription(t.Context(), connect.NewRequest(&calferryv1.ResumeSubscriptionRequest{Id: id}))
			return err
		},
		func() error {
			_, err := r.client.RemoveSubscription(t.Context(), connect.NewRequest(&calferryv1.RemoveSubscriptionRequest{Id: id}))
			return err
		},
	} {
		require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(refuse()))
	}

	r.forget(id)
	health, err := r.js.KeyValue(t.Context(), streams.BucketHealth)
	require.NoError(t, err)
	r.eventually("the health to be forgotten", func() bool {
		_, err := health.Get(t.Context(), id)
		return err != nil
	})
	r.fetch(id, 2, func(*calferryv1.SyncReport) {})
	_, err = r.client.RemoveAccount(t.Context(), connect.NewRequest(&calferryv1.RemoveAccountRequest{Id: account}))
	require.NoError(t, err)
}

func TestWatchStreamsEachChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id, other := r.create(account, "Term dates"), r.create(account, "Other")
	stream, err := r.client.WatchSubscriptions(t.Context(), connect.NewRequest(&calferryv1.WatchSubscriptionsRequest{Id: id}))
	require.NoError(t, err)
	defer stream.Close()
	require.True(t, stream.Receive())
	require.Equal(t, id, stream.Msg().GetSubscription().GetId())

	r.fetch(other, 1, func(*calferryv1.SyncReport) {})
	r.turn(id, 1, throttled)
	for stream.Msg().GetSubscription().GetHealth().GetCounts().GetRemaining() != 14 {
		require.True(t, stream.Receive())
		require.Equal(t, id, stream.Msg().GetSubscription().GetId())
	}
	r.forget(id)
	for !stream.Msg().GetRemoved() {
		require.True(t, stream.Receive(), "%v", stream.Err())
	}
	require.False(t, stream.Receive())
	require.NoError(t, stream.Err())
}

func TestReportsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	for sync := uint64(1); sync <= 5; sync++ {
		r.fetch(id, sync, func(*calferryv1.SyncReport) {})
	}
	res, err := r.client.ListReports(t.Context(), connect.NewRequest(&calferryv1.ListReportsRequest{Subscription: id, PageSize: 3}))
	require.NoError(t, err)
	var got []uint64
	for _, report := range res.Msg.GetReports() {
		got = append(got, report.GetSync().GetSync())
	}
	require.Equal(t, []uint64{5, 4, 3}, got)
}

func TestHoldsAreListedAndDecidedByKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Hut")
	head, err := r.ledger().Head(t.Context(), id)
	require.NoError(t, err)
	for i, key := range []string{"a", "b", "c"} {
		sealed, err := r.feedKey.Seal([]byte("Title "+key), []byte("title:"+id))
		require.NoError(t, err)
		head.Held = append(head.Held, &calferryv1.Held{Key: key, SealedTitle: sealed, Since: timestamppb.New(time.Unix(int64(100-i), 0)), Fetches: 2})
	}
	require.NoError(t, r.ledger().SwapHead(t.Context(), id, head))
	r.fetch(id, 1, func(s *calferryv1.SyncReport) { s.Held = 3 })
	r.shown("the report", id, func(s *calferryv1.SubscriptionStatus) bool { return s.GetHealth().GetHeld() == 3 })

	held := func() []string {
		res, err := r.client.ListHolds(t.Context(), connect.NewRequest(new(calferryv1.ListHoldsRequest)))
		require.NoError(t, err)
		var titles []string
		for _, h := range res.Msg.GetHolds() {
			require.Equal(t, "Hut", h.GetSubscriptionName())
			for _, e := range h.GetEvents() {
				titles = append(titles, e.GetTitle())
			}
		}
		return titles
	}
	require.Equal(t, []string{"Title c", "Title b", "Title a"}, held(), "oldest first")
	decide := func(decision calferryv1.HoldDecision, keys ...string) (uint32, error) {
		res, err := r.client.DecideHold(t.Context(), connect.NewRequest(&calferryv1.DecideHoldRequest{Subscription: id, Decision: decision, Keys: keys}))
		if err != nil {
			return 0, err
		}
		return res.Msg.GetDecided(), nil
	}
	_, err = decide(calferryv1.HoldDecision_HOLD_DECISION_APPROVE, "a", "unknown")
	require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err))
	require.Len(t, held(), 3, "nothing was decided")
	r.takeTurn(id)
	n, err := decide(calferryv1.HoldDecision_HOLD_DECISION_APPROVE, "a")
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.True(t, r.hasTurn(id), "the fetcher acts on it")
	require.Equal(t, []string{"Title c", "Title b"}, held())
	n, err = decide(calferryv1.HoldDecision_HOLD_DECISION_DISCARD)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	require.Empty(t, held())
	_, err = decide(calferryv1.HoldDecision_HOLD_DECISION_UNSPECIFIED)
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
}

func TestReconnectingAsAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.connect()
	_, err := r.client.ConnectAccount(t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
		Id: id, Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: "eve@example.com", GoogleSub: "2002", Credential: r.credential("eve@example.com"),
	}))
	require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err))
	require.ErrorContains(t, err, owner)
	require.ErrorContains(t, err, "eve@example.com")
	r.hidden("the error", err.Error())
	_, err = r.client.ConnectAccount(t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
		Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Credential: &calferryv1.Credential{RefreshToken: "sim-refresh-x"},
	}))
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
	require.ErrorContains(t, err, "client_id")
	r.hidden("the error", err.Error())
}

// The same feed twice in one calendar is warned of before and after, by the other's name, and is not refused.
func TestTheSameFeedTwiceInOneCalendarIsWarnedOf(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *state.Config) { c.LocalFeeds = true })
	account := r.connect()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nEND:VCALENDAR\r\n"))
	}))
	defer server.Close()
	address := server.URL + "/" + secretPath + "/term.ics"
	create := func(name, address, calendar, zone string) *calferryv1.CreateSubscriptionResponse {
		res, err := r.client.CreateSubscription(t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
			Name: name, Account: account, CalendarId: calendar, CalendarTimeZone: zone, Feed: &calferryv1.FeedSource{Url: address},
		}))
		require.NoError(t, err)
		r.hidden("the answer", res.Msg.String())
		return res.Msg
	}
	first := create("Term dates", address, teamCalendar, "")
	require.Empty(t, first.GetWarnings())
	require.Empty(t, create("Elsewhere", address, "other@group.calendar.google.com", "UTC").GetWarnings(), "another calendar")
	require.Empty(t, create("Other", address+"?other", teamCalendar, "").GetWarnings(), "another feed")

	plan := &calferryv1.PlanSubscriptionRequest{Feed: &calferryv1.FeedSource{Url: address + "#top"}, CalendarId: teamCalendar}
	planned, err := r.client.PlanSubscription(t.Context(), connect.NewRequest(plan))
	require.NoError(t, err)
	require.Len(t, planned.Msg.GetWarnings(), 1)
	warning := planned.Msg.GetWarnings()[0]
	require.Contains(t, warning, `"Term dates" (`+first.GetSubscription().GetId()+`)`)
	require.Contains(t, warning, "change that subscription instead")
	r.hidden("the warning", warning)
	_, page := r.send(http.MethodPost, "/subscriptions/new", url.Values{"url": {address}, "account": {account}, "calendar": {teamCalendar}}.Encode())
	require.Contains(t, html.UnescapeString(text(page)), "T"+warning[1:]+".")
	require.Equal(t, []string{warning}, create("Again", "webcal"+strings.TrimPrefix(address, "http"), teamCalendar, "").GetWarnings())

	own := &calferryv1.PlanSubscriptionRequest{Id: first.GetSubscription().GetId(), Feed: &calferryv1.FeedSource{Url: address + "?own"}}
	planned, err = r.client.PlanSubscription(t.Context(), connect.NewRequest(own))
	require.NoError(t, err)
	require.Empty(t, planned.Msg.GetWarnings())
	doc := "version: 1\nsubscriptions: [{name: And again, account: " + account + ", calendar: " + teamCalendar + ", url: \"" + address + "\"}]"
	res, err := r.client.ImportConfig(t.Context(), connect.NewRequest(&calferryv1.ImportConfigRequest{Document: doc, DryRun: true}))
	require.NoError(t, err)
	require.Contains(t, res.Msg.GetSubscriptions()[0].GetDetail(), `by the subscriptions "Again" (`)
	require.Contains(t, res.Msg.GetSubscriptions()[0].GetDetail(), `), "Term dates" (`)
}
