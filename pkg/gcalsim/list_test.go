package gcalsim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

const listWork = getWork + "/events"

func (b *bench) fill(n int) {
	b.t.Helper()
	for i := range n {
		_, err := b.UserCreate(work, timed(fmt.Sprintf("event%05d", i), 2, 9))
		require.NoError(b.t, err)
	}
}

func TestPageSizes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(300)
	list, err := b.events.List(work).Do()
	require.NoError(t, err)
	require.Len(t, list.Items, 250)
	require.NotEmpty(t, list.NextPageToken)
	require.Empty(t, list.NextSyncToken)
	rest, err := b.events.List(work).PageToken(list.NextPageToken).Do()
	require.NoError(t, err)
	require.Len(t, rest.Items, 50)
	require.Empty(t, rest.NextPageToken)
	require.NotEmpty(t, rest.NextSyncToken, "the last page has the sync token")
	all, err := b.events.List(work).MaxResults(2500).Do()
	require.NoError(t, err)
	require.Len(t, all.Items, 300)
	require.Equal(t, "Work", all.Summary)
	require.Equal(t, "Europe/Berlin", all.TimeZone)
	require.Equal(t, "owner", all.AccessRole)
	require.Regexp(t, `^"p32\d+"$`, all.Etag)

	r := b.authed(http.MethodGet, listWork+"?maxResults=3000", "")
	require.Equal(t, http.StatusBadRequest, r.code)
	require.Equal(t, "invalidParameter", b.envelope(r).Error.Errors[0].Reason)
	require.Equal(t, "Invalid value '3000'. Values must be within the range: [1, 2500]", b.envelope(r).Error.Message)
	b.SetBehaviour(gcalsim.Behaviour{ClampMaxResults: true})
	require.Equal(t, http.StatusOK, b.authed(http.MethodGet, listWork+"?maxResults=3000", "").code)
	require.Equal(t, http.StatusBadRequest, b.authed(http.MethodGet, listWork+"?pageToken=nonsense", "").code)
}

func TestFirstPageCanBeEmpty(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.Behaviour.EmptyFirstPage = true })
	b.fill(3)
	list, err := b.events.List(work).Do()
	require.NoError(t, err)
	require.Empty(t, list.Items)
	list, err = b.events.List(work).PageToken(list.NextPageToken).Do()
	require.NoError(t, err)
	require.Len(t, list.Items, 3)
}

func TestPagesStayStableWhileEventsCome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(4)
	page, err := b.events.List(work).MaxResults(2).Do()
	require.NoError(t, err)
	require.NoError(t, b.UserDelete(work, "event00000"))
	_, err = b.UserCreate(work, timed("later", 2, 9))
	require.NoError(t, err)
	rest, err := b.events.List(work).PageToken(page.NextPageToken).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"event00002", "event00003", "later"}, ids(rest.Items))
	// The token dates from the first page, so what changed meanwhile comes again.
	changes, err := b.events.List(work).SyncToken(rest.NextSyncToken).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"event00000", "later"}, ids(changes.Items))
}

func TestSyncTokenTellsWhatChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(3)
	b.insert(weekly("serie1"))
	list, err := b.events.List(work).Do()
	require.NoError(t, err)
	none, err := b.events.List(work).SyncToken(list.NextSyncToken).Do()
	require.NoError(t, err)
	require.Empty(t, none.Items)

	require.NoError(t, b.events.Delete(work, "event00001").Do())
	_, err = b.events.Patch(work, "event00002", &calendar.Event{Summary: "x"}).Do()
	require.NoError(t, err)
	require.NoError(t, b.events.Delete(work, secondInstance).Do())
	got, err := b.events.List(work).SyncToken(list.NextSyncToken).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"event00001", "event00002", secondInstance}, ids(got.Items))
	require.Equal(t, "cancelled", got.Items[0].Status)

	for _, param := range []string{
		"timeMin=2026-01-01T00:00:00Z", "timeMax=2026-01-01T00:00:00Z", "q=x", "orderBy=updated", "iCalUID=x", "updatedMin=2026-03-01T00:00:00Z",
		"privateExtendedProperty=a%3Db", "sharedExtendedProperty=a%3Db", "showDeleted=false",
	} {
		r := b.authed(http.MethodGet, listWork+"?syncToken="+url.QueryEscape(list.NextSyncToken)+"&"+param, "")
		require.Equal(t, http.StatusBadRequest, r.code, param)
	}
}

func TestTokensGoStale(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.TokenTTL = 10_000 * time.Hour })
	list, err := b.events.List(work).Do()
	require.NoError(t, err)
	expired := func(token string) {
		_, err := b.events.List(work).SyncToken(token).Do()
		g := refused(t, err, http.StatusGone, "fullSyncRequired", "Sync token is no longer valid, a full sync is required.")
		require.Contains(t, g.Body, `"location":"syncToken"`)
	}
	expired("nonsense")
	_, err = b.events.List(work).SyncToken(list.NextSyncToken).Do()
	require.NoError(t, err)
	b.ExpireSyncTokens()
	expired(list.NextSyncToken)

	b.insert(timed("aaaaa1", 2, 9))
	list, err = b.events.List(work).Do()
	require.NoError(t, err)
	b.clock.forward(gcalsim.DefaultSyncTokenTTL + time.Second)
	expired(list.NextSyncToken)

	_, err = b.events.List(work).UpdatedMin("2020-01-01T00:00:00Z").Do()
	refused(t, err, http.StatusGone, "updatedMinTooLongAgo", "The requested minimum modification time lies too far in the past.")
}

func TestWindows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9)) // 08:00Z to 09:00Z
	b.insert(&calendar.Event{Id: "alldag", Start: &calendar.EventDateTime{Date: "2026-03-05"}, End: &calendar.EventDateTime{Date: "2026-03-06"}})
	b.insert(weekly("serie1"))
	for _, tc := range []struct {
		min, max string
		want     []string
	}{
		{"2026-03-02T08:59:59Z", "2026-03-02T10:00:00Z", []string{"aaaaa1", "serie1"}},
		{"2026-03-02T09:00:00Z", "2026-03-02T10:00:00Z", []string{}},
		{"2026-03-02T07:00:00Z", "2026-03-02T08:00:00Z", []string{}},
		{"2026-03-02T07:00:00Z", "2026-03-02T08:00:01Z", []string{"aaaaa1", "serie1"}},
		{"2026-03-04T22:00:00Z", "2026-03-04T23:00:00Z", []string{}},
		{"2026-03-04T22:00:00Z", "2026-03-04T23:00:01Z", []string{"alldag"}}, // midnight in Berlin is 23:00Z
		{"2026-03-30T00:00:00Z", "2026-03-31T00:00:00Z", []string{"serie1"}},
		{"2026-05-01T00:00:00Z", "", []string{}},
		{"", "2026-03-01T00:00:00Z", []string{}},
	} {
		call := b.events.List(work)
		if tc.min != "" {
			call.TimeMin(tc.min)
		}
		if tc.max != "" {
			call.TimeMax(tc.max)
		}
		list, err := call.Do()
		require.NoError(t, err)
		require.Equal(t, tc.want, ids(list.Items), "%s to %s", tc.min, tc.max)
	}
	_, err := b.events.List(work).TimeMin("2026-03-02T09:00:00Z").TimeMax("2026-03-02T09:00:00Z").Do()
	refused(t, err, http.StatusBadRequest, "timeRangeEmpty", "")
	_, err = b.events.List(work).TimeMin("2026-03-02T09:00:00").Do()
	refused(t, err, http.StatusBadRequest, "badRequest", "")
}

func TestOrders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa2", 3, 9))
	b.insert(timed("aaaaa1", 2, 9))
	_, err := b.events.Patch(work, "aaaaa2", &calendar.Event{Summary: "x"}).Do()
	require.NoError(t, err)
	_, err = b.events.List(work).OrderBy("startTime").Do()
	refused(t, err, http.StatusBadRequest, "badRequest", "The requested ordering is not available for the particular query.")
	list, err := b.events.List(work).OrderBy("startTime").SingleEvents(true).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"aaaaa1", "aaaaa2"}, ids(list.Items))
	list, err = b.events.List(work).OrderBy("updated").MaxResults(1).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"aaaaa1"}, ids(list.Items))
	list, err = b.events.List(work).OrderBy("updated").MaxResults(1).PageToken(list.NextPageToken).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"aaaaa2"}, ids(list.Items))
	require.Empty(t, list.NextSyncToken)
	_, err = b.events.List(work).OrderBy("size").Do()
	refused(t, err, http.StatusBadRequest, "invalidParameter", "")
}

func TestPropertyFilters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for id, props := range map[string]map[string]string{"aaaaa1": {"a": "1", "b": "1"}, "aaaaa2": {"a": "1", "b": "2"}, "aaaaa3": {"b": "1"}} {
		ev := timed(id, 2, 9)
		ev.ExtendedProperties = &calendar.EventExtendedProperties{Private: props, Shared: map[string]string{"s": id}}
		b.insert(ev)
	}
	find := func(constraints ...string) []string {
		list, err := b.events.List(work).PrivateExtendedProperty(constraints...).SingleEvents(true).OrderBy("startTime").Do()
		require.NoError(t, err)
		return ids(list.Items)
	}
	require.Equal(t, []string{"aaaaa1", "aaaaa2"}, find("a=1"))
	require.Equal(t, []string{"aaaaa1"}, find("a=1", "b=1"))
	require.Empty(t, find("c=1"))
	b.SetBehaviour(gcalsim.Behaviour{AnyProperty: true})
	require.Equal(t, []string{"aaaaa1", "aaaaa2", "aaaaa3"}, find("a=1", "b=1"))
	list, err := b.events.List(work).SharedExtendedProperty("s=aaaaa3").PrivateExtendedProperty("b=1").Do()
	require.NoError(t, err)
	require.Equal(t, []string{"aaaaa3"}, ids(list.Items))
	_, err = b.events.List(work).PrivateExtendedProperty("nonsense").Do()
	refused(t, err, http.StatusBadRequest, "invalid", "")
}

func TestTombstonesInListings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(2)
	b.insert(weekly("serie1"))
	require.NoError(t, b.events.Delete(work, "event00000").Do())
	require.NoError(t, b.events.Delete(work, "serie1").Do())
	list, err := b.events.List(work).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"event00001"}, ids(list.Items))
	list, err = b.events.List(work).ShowDeleted(true).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"event00000", "event00001", "serie1"}, ids(list.Items))
	list, err = b.events.List(work).UpdatedMin("2026-03-02T00:00:00Z").Do()
	require.NoError(t, err)
	require.Len(t, list.Items, 3, "updatedMin shows deleted events in any case")
}

func TestEmptyLists(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.Equal(t, []any{}, b.object(b.authed(http.MethodGet, listWork, ""))["items"])
	b.SetBehaviour(gcalsim.Behaviour{OmitEmptyItems: true})
	require.NotContains(t, b.object(b.authed(http.MethodGet, listWork, "")), "items")
}

func TestSearches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(2)
	ev := weekly("serie1")
	ev.Location = "Hall of Mirrors"
	b.insert(ev)
	_, err := b.events.Patch(work, secondInstance, &calendar.Event{Summary: "x"}).Do()
	require.NoError(t, err)
	list, err := b.events.List(work).ICalUID("serie1@google.com").Do()
	require.NoError(t, err)
	require.Equal(t, []string{"serie1", secondInstance}, ids(list.Items))
	list, err = b.events.List(work).Q("mirrors").Do()
	require.NoError(t, err)
	require.Equal(t, []string{"serie1", secondInstance}, ids(list.Items))
}

func TestFieldsMask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(3)
	list, err := b.events.List(work).MaxResults(2).Fields("items(id,start/timeZone),nextPageToken").Do()
	require.NoError(t, err)
	require.NotEmpty(t, list.NextPageToken)
	require.Empty(t, list.Etag)
	require.Equal(t, &calendar.EventDateTime{TimeZone: "Europe/Berlin"}, list.Items[0].Start)
	require.Equal(t, "event00000", list.Items[0].Id)
	require.Empty(t, list.Items[0].Summary)

	got := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(b.authed(http.MethodGet, listWork+"/event00000?fields=id,start(*)", "").text), &got))
	require.Len(t, got, 2)
	require.Len(t, got["start"], 2)
	for _, mask := range []string{"items(", "a,,b", "a)", "(a)", "a/"} {
		r := b.authed(http.MethodGet, listWork+"?fields="+url.QueryEscape(mask), "")
		require.Equal(t, http.StatusBadRequest, r.code, mask)
		require.Equal(t, "invalidParameter", b.envelope(r).Error.Errors[0].Reason)
	}
}
