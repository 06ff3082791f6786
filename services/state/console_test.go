package state_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/config"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state"
)

// text is what a page says, without its markup.
func text(page string) string {
	z := html.NewTokenizer(strings.NewReader(page))
	var b strings.Builder
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.Join(strings.Fields(b.String()), " ")
		case html.TextToken:
			b.Write(z.Text())
		}
	}
}

// walk visits every element of a page.
func walk(t *testing.T, page string, visit func(*html.Node, func(attribute string) (string, bool))) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		visit(n, func(attribute string) (string, bool) {
			for _, a := range n.Attr {
				if a.Key == attribute {
					return a.Val, true
				}
			}
			return "", false
		})
	}
}

// crowded is a rig with one subscription in each state, by name.
func crowded(t *testing.T, change ...func(*state.Config)) (*rig, map[string]string) {
	t.Helper()
	r := newRig(t, change...)
	account := r.connect()
	ids := map[string]string{}
	for _, name := range []string{"waiting", "writing", "settled", "failing", "held", "paused", "new", "<b>bold</b>"} {
		ids[name] = r.create(account, name)
	}
	r.fetch(ids["waiting"], 1, func(s *calferryv1.SyncReport) {
		s.Creates, s.Events, s.Notes = 142, 142, []string{"line 3: <script>alert(1)</script>"}
	})
	r.turn(ids["waiting"], 1, func(x *calferryv1.TurnReport) {
		throttled(x)
		x.ResumesAt = timestamppb.New(time.Now().Add(5 * time.Hour)) // so long that the page says the same half an hour later
	})
	r.turn(ids["writing"], 1, func(x *calferryv1.TurnReport) {
		x.Counts, x.EndedBy = &calferryv1.Counts{Planned: 1200, Created: 450, Remaining: 750}, calferryv1.TurnEnd_TURN_END_REQUEUED
	})
	r.turn(ids["settled"], 1, func(x *calferryv1.TurnReport) {
		x.Counts, x.EndedBy, x.Settled = &calferryv1.Counts{Planned: 3, Updated: 3}, calferryv1.TurnEnd_TURN_END_DONE, true
	})
	r.turn(ids["failing"], 1, func(x *calferryv1.TurnReport) {
		x.ErrorClass, x.Error = calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_GONE, "notFound"
		x.Counts = &calferryv1.Counts{Planned: 2, Remaining: 2}
	})
	head, err := r.ledger().Head(t.Context(), ids["held"])
	require.NoError(t, err)
	for _, key := range []string{"k1", "k2"} {
		sealed, err := r.feedKey.Seal([]byte("Party "+key), []byte("title:"+ids["held"]))
		require.NoError(t, err)
		head.Held = append(head.Held, &calferryv1.Held{Key: key, SealedTitle: sealed, Since: timestamppb.Now(), Fetches: 1})
	}
	require.NoError(t, r.ledger().SwapHead(t.Context(), ids["held"], head))
	r.fetch(ids["held"], 1, func(s *calferryv1.SyncReport) { s.Held = 2 })
	_, err = r.client.PauseSubscription(t.Context(), connect.NewRequest(&calferryv1.PauseSubscriptionRequest{Id: ids["paused"]}))
	require.NoError(t, err)
	for name, told := range map[string]func(*calferryv1.Health) bool{
		"waiting": func(h *calferryv1.Health) bool { return h.GetCounts().GetRemaining() == 14 },
		"writing": func(h *calferryv1.Health) bool { return h.GetCounts().GetRemaining() == 750 },
		"settled": func(h *calferryv1.Health) bool { return h.GetSettled() == 1 },
		"failing": func(h *calferryv1.Health) bool { return h.GetStatus() == calferryv1.Status_STATUS_ERROR },
		"held":    func(h *calferryv1.Health) bool { return h.GetHeld() == 2 },
	} {
		r.shown("reports of "+name, ids[name], func(s *calferryv1.SubscriptionStatus) bool { return told(s.GetHealth()) })
		_, page := r.page("/subscriptions/" + ids[name])
		require.Contains(t, page, `<ol class="timeline">`, name)
	}
	return r, ids
}

func TestOverviewTellsTheTruth(t *testing.T) {
	t.Parallel()
	r, _ := crowded(t)
	status, page := r.page("/")
	require.Equal(t, http.StatusOK, status)
	said := text(page)
	require.Contains(t, said, "128 written, 14 waiting, resumes in about 5 h")
	require.Contains(t, said, "450 written, 750 waiting")
	require.Contains(t, said, "3 written in the newest sync")
	require.Contains(t, said, "1 feed needs attention, 1 waits for a decision")
	require.Contains(t, said, "764 writes wait for 2 feeds")
	require.Contains(t, said, "The calendar is gone.")
	require.Contains(t, said, "2 deletions held")
	require.Contains(t, said, "<b>bold</b>", "names are text")
	require.NotContains(t, page, "<b>bold</b>")
	require.Less(t, strings.Index(said, "The calendar is gone."), strings.Index(said, "450 written"), "what needs a person comes first")

	for show, want := range map[string]string{"waiting": "waiting", "error": "failing", "deciding": "held", "paused": "paused"} {
		_, page := r.page("/?show=" + show)
		require.Equal(t, 1, strings.Count(page, `<li class="card`), show)
		require.Contains(t, page, ">"+want+"</a></h2>")
	}
	_, page = r.page("/?q=SETTL")
	require.Equal(t, 1, strings.Count(page, `<li class="card`))
	_, page = r.page("/?q=nothing+like+it")
	require.Contains(t, text(page), "Nothing matches")
}

func TestSubscriptionPageShowsWhatHappened(t *testing.T) {
	t.Parallel()
	r, ids := crowded(t)
	_, page := r.page("/subscriptions/" + ids["waiting"])
	said := text(page)
	require.Contains(t, said, "Read 142 events; 142 to create")
	require.Contains(t, said, "Google said “later” 1 time for this calendar")
	require.Contains(t, said, "line 3: <script>alert(1)</script>")
	require.NotContains(t, page, "<script>alert")
	require.Contains(t, said, "Told “later” in a row1 sync")
	require.Contains(t, said, "Errors in a rownone")
	status, page := r.page("/subscriptions/unknown")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, text(page), "no such subscription")
	status, _ = r.page("/nowhere")
	require.Equal(t, http.StatusNotFound, status)
}

// Every page obeys its own policy and can be used without sight, mouse or scripts.
func TestPagesAreCleanAndAccessible(t *testing.T) {
	t.Parallel()
	r, ids := crowded(t, func(c *state.Config) { c.PathPrefix = "/cal" })
	pages := []string{"/", "/?q=none", "/accounts", "/subscriptions/new", "/nowhere"}
	for _, id := range ids {
		pages = append(pages, "/subscriptions/"+id)
	}
	for _, path := range pages {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.web.URL+r.base+path, nil)
		require.NoError(t, err)
		res, err := r.web.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		csp := res.Header.Get("Content-Security-Policy")
		require.Contains(t, csp, "default-src 'none'")
		require.NotContains(t, csp, "unsafe")
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))

		_, page := r.page(path)
		require.Contains(t, page, `<html lang="en">`)
		labelled, ids, needs := map[string]bool{}, map[string]int{}, []string{}
		count := map[string]int{}
		walk(t, page, func(n *html.Node, attribute func(string) (string, bool)) {
			count[n.Data]++
			for _, a := range n.Attr {
				require.False(t, a.Key == "style" || strings.HasPrefix(a.Key, "on"), "%s: inline %s on %s", path, a.Key, n.Data)
			}
			for _, key := range []string{"href", "src", "action"} {
				if to, ok := attribute(key); ok && !strings.HasPrefix(to, "#") {
					require.Regexp(t, `^/cal/`, to, "%s: %s leaves the console", path, n.Data)
				}
			}
			if id, ok := attribute("id"); ok {
				ids[id]++
				require.Equal(t, 1, ids[id], "%s: id %s stands twice", path, id)
			}
			switch n.Data {
			case "style":
				require.Fail(t, "inline style", path)
			case "script":
				_, external := attribute("src")
				require.True(t, external, path)
				require.Nil(t, n.FirstChild)
			case "label":
				target, _ := attribute("for")
				labelled[target] = true
			case "input", "select", "textarea":
				if kind, _ := attribute("type"); kind != "hidden" {
					id, _ := attribute("id")
					needs = append(needs, id)
				}
			}
		})
		for _, id := range needs {
			require.True(t, labelled[id], "%s: field %q has no label", path, id)
		}
		require.Equal(t, 1, count["h1"], path)
		require.Equal(t, 1, count["main"], path)
		require.Equal(t, 1, count["nav"], path)
	}
}

func TestAssetsAreServedAndCached(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, page := r.page("/")
	assets := regexp.MustCompile(`/assets/[a-z.]+\?v=[0-9a-f]+`).FindAllString(page, -1)
	require.Len(t, assets, 3)
	for _, asset := range assets {
		res, err := r.web.Client().Get(r.web.URL + asset)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Contains(t, res.Header.Get("Cache-Control"), "immutable")
	}
}

func TestButtonsWork(t *testing.T) {
	t.Parallel()
	r, ids := crowded(t)
	id := ids["settled"]
	r.takeTurn(id)
	_, page := r.send(http.MethodPost, "/subscriptions/"+id+"/sync", "")
	require.Contains(t, text(page), "The feed is being read now.")
	require.True(t, r.hasTurn(id))
	_, page = r.send(http.MethodPost, "/subscriptions/"+id+"/pause", "")
	require.Contains(t, page, `action="/subscriptions/`+id+`/resume"`)
	_, page = r.send(http.MethodPost, "/subscriptions/"+id+"/resume", "")
	require.Contains(t, page, `action="/subscriptions/`+id+`/pause"`)
	_, page = r.send(http.MethodPost, "/subscriptions/"+id+"/remove", "events=keep")
	require.Contains(t, text(page), "Its events stay in Google.")
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_KEEP, r.get(id).GetState())
	status, page := r.send(http.MethodPost, "/subscriptions/"+id+"/resume", "")
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, text(page), "is being removed")
	status, _ = r.send(http.MethodPost, "/subscriptions/"+id+"/explode", "")
	require.Equal(t, http.StatusNotFound, status)
}

func TestHeldDeletionsAreDecidedOnThePage(t *testing.T) {
	t.Parallel()
	r, ids := crowded(t)
	id := ids["held"]
	_, page := r.page("/subscriptions/" + id)
	require.Contains(t, text(page), "2 deletions wait for you")
	require.Contains(t, text(page), "Party k1")
	_, page = r.send(http.MethodPost, "/subscriptions/"+id+"/holds", "decision=approve")
	require.Contains(t, text(page), "Nothing was chosen")
	_, page = r.send(http.MethodPost, "/subscriptions/"+id+"/holds", "decision=approve&key=k1")
	require.Contains(t, text(page), "1 deletion waits for you")
	_, page = r.send(http.MethodPost, "/subscriptions/"+id+"/holds", "decision=discard&key=k2")
	require.NotContains(t, text(page), "Party k2")
	status, _ := r.send(http.MethodPost, "/subscriptions/"+id+"/holds", "decision=approve&key=other")
	require.Equal(t, http.StatusConflict, status)
}

// draftIn is what a page carries along, sealed.
func draftIn(t *testing.T, page string) string {
	t.Helper()
	found := regexp.MustCompile(`name="draft" value="([^"]+)"`).FindStringSubmatch(page)
	require.Len(t, found, 2, "the page carries no draft")
	return found[1]
}

func TestFeedIsAddedByForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *state.Config) { c.LocalFeeds = true })
	_, page := r.page("/subscriptions/new")
	require.Contains(t, text(page), "First connect a Google account")
	account := r.connect()
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//T//T//EN\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\n" +
			"DTSTART;TZID=Europe/Vienna:20990105T090000\r\nDTEND;TZID=Europe/Vienna:20990105T100000\r\nSUMMARY:First lesson\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"))
	}))
	defer server.Close()
	typed := func(feed string) url.Values {
		return url.Values{
			"url": {feed}, "account": {account}, "calendar": {teamCalendar}, "name": {"Terms"}, "user": {"u"}, "password": {secretPass},
			"interval": {"1h"}, "prefix": {"School: "},
			"filter-mode": {"exclude", "exclude"}, "filter-field": {"summary", "summary"}, "filter-match": {"contains", "contains"}, "filter-value": {"exam", ""},
		}
	}
	status, page := r.send(http.MethodPost, "/subscriptions/new", typed("gopher://x.example").Encode())
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, text(page), "should begin with https://")
	require.Contains(t, page, `value="Terms"`, "what was typed is kept")
	for _, never := range []string{"notaurl", "file:///etc/passwd", "https:///x.ics", "school.example/" + secretPath + ".ics"} {
		status, page = r.send(http.MethodPost, "/subscriptions/new", typed(never).Encode())
		require.Equal(t, http.StatusUnprocessableEntity, status, never)
		require.Contains(t, text(page), "https://")
		require.Contains(t, page, `value="Terms"`)
		require.NotContains(t, page, "as you typed it before", "it is of no use")
		require.Regexp(t, `<input id="url"[^>]* required`, page)
	}

	status, page = r.send(http.MethodPost, "/subscriptions/new", typed(server.URL+"/"+secretPath+"/y.ics").Encode())
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text(page), "1 event in Google afterwards")
	require.Contains(t, text(page), "School: First lesson")
	require.Contains(t, text(page), "Mon 5 Jan 2099, 09:00–10:00 Europe/Vienna", "in the event's own zone")
	listed, err := r.client.ListSubscriptions(t.Context(), connect.NewRequest(&calferryv1.ListSubscriptionsRequest{}))
	require.NoError(t, err)
	require.Empty(t, listed.Msg.GetSubscriptions(), "a preview stores nothing")

	_, page = r.send(http.MethodPost, "/subscriptions/new", url.Values{"draft": {draftIn(t, page)}, "change": {"1"}}.Encode())
	require.Contains(t, page, `value="School: "`)
	again := typed("")
	again.Del("password")
	again.Del("user")
	again.Set("draft", draftIn(t, page))
	again.Set("prefix", "Kept: ")
	status, page = r.send(http.MethodPost, "/subscriptions/new", again.Encode())
	require.Equal(t, http.StatusOK, status, text(page))
	require.Contains(t, text(page), "Kept: First lesson", "the address was kept, sealed")

	status, page = r.send(http.MethodPost, "/subscriptions", url.Values{"draft": {draftIn(t, page)}}.Encode())
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text(page), "Added. The feed is being read now.")
	require.Contains(t, text(page), "Waiting for the first fetch")
	listed, err = r.client.ListSubscriptions(t.Context(), connect.NewRequest(&calferryv1.ListSubscriptionsRequest{}))
	require.NoError(t, err)
	require.Len(t, listed.Msg.GetSubscriptions(), 1)
	made := listed.Msg.GetSubscriptions()[0]
	require.Equal(t, "Kept: ", made.GetOptions().GetTitlePrefix())
	require.Len(t, made.GetOptions().GetFilters(), 1)
	require.Equal(t, time.Hour, made.GetInterval().AsDuration())

	down.Store(true)
	_, page = r.send(http.MethodPost, "/subscriptions/new", typed(server.URL+"/"+secretPath+"/y.ics").Encode())
	require.Contains(t, text(page), "Add it all the same", "a server that is down now need not be so tomorrow")
	status, _ = r.send(http.MethodPost, "/subscriptions", "draft=forged")
	require.Equal(t, http.StatusUnprocessableEntity, status)
}

func TestManyAreChangedOnlyAsShown(t *testing.T) {
	t.Parallel()
	r, ids := crowded(t)
	_, page := r.page("/bulk?action=pause&q=ing&show=writing")
	require.Contains(t, text(page), "Pause: 1 subscription?")
	printed := regexp.MustCompile(`name="print" value="([^"]+)"`).FindStringSubmatch(page)
	require.Len(t, printed, 2)
	status, page := r.send(http.MethodPost, "/bulk", url.Values{"action": {"pause"}, "q": {"ing"}, "print": {printed[1]}}.Encode())
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, text(page), "Nothing was done")
	status, page = r.send(http.MethodPost, "/bulk", url.Values{"action": {"pause"}, "q": {"ing"}, "show": {"writing"}, "print": {printed[1]}}.Encode())
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text(page), "They are paused.")
	for name, id := range ids {
		paused := r.get(id).GetState() == calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED
		require.Equal(t, name == "writing" || name == "paused", paused, name)
	}
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	r, ids := crowded(t)
	for _, path := range []string{"/subscriptions/" + ids["settled"] + "/pause", "/subscriptions"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.web.URL+path, nil)
		require.NoError(t, err)
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		res, err := r.web.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusForbidden, res.StatusCode)
	}
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE, r.get(ids["settled"]).GetState())
}

func TestConsoleAsksForTheToken(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123"
	r := newRig(t, func(c *state.Config) { c.Access.AuthToken = config.Secret(token) })
	status, page := r.page("/accounts")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, `action="/login"`)
	status, page = r.send(http.MethodPost, "/login", "token=wrong")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, text(page), "That is not the token.")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.web.URL+"/login", strings.NewReader("token="+token))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	req, err = http.NewRequestWithContext(t.Context(), http.MethodGet, r.web.URL+"/accounts", nil)
	require.NoError(t, err)
	req.AddCookie(res.Cookies()[0])
	res, err = http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.NotContains(t, r.log.String(), token)
}

func TestPagesHearOfChangesUntilTheServiceStops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id, other := r.create(account, "Term dates"), r.create(account, "Other")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.web.URL+"/events?follow="+id, nil)
	require.NoError(t, err)
	res, err := r.web.Client().Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	lines := bufio.NewScanner(res.Body)
	await := func(want string) {
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		require.Fail(t, "the stream ended before", want)
	}
	await("event: hello")
	r.fetch(other, 1, func(*calferryv1.SyncReport) {})
	r.eventually("the other's report", func() bool { return r.get(other).GetHealth().GetSync() == 1 })
	r.fetch(id, 1, func(*calferryv1.SyncReport) {})
	await("event: changed")
	r.stop()
	for lines.Scan() {
		require.NotEqual(t, "event: changed", lines.Text(), "nothing changed since")
	}
	require.NoError(t, ctx.Err(), "the stream ends with the service")
}
