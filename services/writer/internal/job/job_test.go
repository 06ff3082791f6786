package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/job"
)

var (
	now      = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	target   = []byte("target")
	settings = job.Settings{ProofAge: time.Minute}
)

func upsert() *calferryv1.Change {
	return &calferryv1.Change{Key: "k", Op: calferryv1.Op_OP_UPSERT, TargetHash: target}
}

func remove() *calferryv1.Change {
	return &calferryv1.Change{Key: "k", Op: calferryv1.Op_OP_DELETE}
}

func override(c *calferryv1.Change) *calferryv1.Change {
	c.MasterKey, c.Instance = "m", "20260317T080000Z"
	return c
}

func entry(state calferryv1.EntryState, etag string) *calferryv1.Entry {
	return &calferryv1.Entry{Key: "k", State: state, Etag: etag, ContentHash: []byte("old")}
}

const (
	live        = calferryv1.EntryState_ENTRY_STATE_LIVE
	deleted     = calferryv1.EntryState_ENTRY_STATE_DELETED
	userDeleted = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	quarantined = calferryv1.EntryState_ENTRY_STATE_QUARANTINED
)

// intent is what a turn of the given age left open.
func intent(age time.Duration, ops ...calferryv1.Op) *calferryv1.Intent {
	in := &calferryv1.Intent{Key: "k", Token: "dead", At: timestamppb.New(now.Add(-age))}
	for _, op := range ops {
		in.Upsert = in.Upsert || op == calferryv1.Op_OP_UPSERT
		in.Delete = in.Delete || op == calferryv1.Op_OP_DELETE
	}
	return in
}

const (
	up  = calferryv1.Op_OP_UPSERT
	del = calferryv1.Op_OP_DELETE
)

// says is one exchange with Google: the request that is expected, and the answer to it.
type says struct {
	verb   job.Verb
	match  string
	answer job.Answer
}

var (
	ok        = job.Answer{Result: job.OK, Etag: "new"}
	duplicate = job.Answer{Result: job.Conflict, Duplicate: true}
	stale     = job.Answer{Result: job.Conflict}
	cancelled = job.Answer{Result: job.Conflict, Cancelled: true}
	missing   = job.Answer{Result: job.NotFound}
	gone      = job.Answer{Result: job.Gone}
	unknown   = job.Answer{Result: job.Unknown}
	throttled = job.Answer{Result: job.Throttled}
	refused   = job.Answer{Result: job.Refused, Reason: "bad rule"}
	equal     = job.Answer{Result: job.OK, Etag: "e2", Content: target}
	differs   = job.Answer{Result: job.OK, Etag: "e2", Content: []byte("other")}
	tombstone = job.Answer{Result: job.OK, Etag: "e3", Cancelled: true}
)

func TestTheWayToTheTarget(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change *calferryv1.Change
		entry  *calferryv1.Entry
		intent *calferryv1.Intent
		feed   bool
		talk   []says
		// want is how it ends; zero: it waits.
		want       job.Kind
		generation uint32
	}{
		"a new event is inserted":           {change: upsert(), talk: []says{{job.Insert, "", ok}}, want: job.Live},
		"a known event is patched":          {change: upsert(), entry: entry(live, "e"), talk: []says{{job.Patch, "e", ok}}, want: job.Live},
		"a known event is deleted":          {change: remove(), entry: entry(live, "e"), talk: []says{{job.Delete, "e", ok}}, want: job.Deleted},
		"a throttled request is sent again": {change: upsert(), talk: []says{{job.Insert, "", throttled}, {job.Insert, "", ok}}, want: job.Live},
		"a refused event is quarantined":    {change: upsert(), talk: []says{{job.Insert, "", refused}}, want: job.Quarantined},

		"a taken id with our content is adopted": {
			change: upsert(), talk: []says{{job.Insert, "", duplicate}, {job.Get, "", equal}}, want: job.Live,
		},
		"a taken id with other content is patched on the etag that was read": {
			change: upsert(), talk: []says{{job.Insert, "", duplicate}, {job.Get, "", differs}, {job.Patch, "e2", ok}}, want: job.Live,
		},
		"a moved etag is looked up, and the patch repeated on it": {
			change: upsert(), entry: entry(live, "e"), talk: []says{{job.Patch, "e", stale}, {job.Get, "", differs}, {job.Patch, "e2", ok}}, want: job.Live,
		},
		"an event that vanished is made again": {
			change: upsert(), entry: entry(live, "e"), talk: []says{{job.Patch, "e", missing}, {job.Get, "", missing}, {job.Insert, "", ok}}, want: job.Live,
		},
		"a live entry found cancelled was deleted by the user": {
			change: upsert(), entry: entry(live, "e"), talk: []says{{job.Patch, "e", cancelled}, {job.Get, "", tombstone}}, want: job.UserDeleted,
		},
		"an open upsert does not license an undelete": {
			change: upsert(), intent: intent(2*time.Minute, up), talk: []says{{job.Insert, "", duplicate}, {job.Get, "", tombstone}}, want: job.UserDeleted,
		},
		"an open delete does": {
			change: upsert(), entry: entry(live, "e"), intent: intent(time.Second, del),
			talk: []says{{job.Patch, "e", cancelled}, {job.Get, "", tombstone}, {job.Undelete, "e3", ok}}, want: job.Live,
		},
		"what we deleted is revived, conditionally": {
			change: upsert(), entry: entry(deleted, ""), talk: []says{{job.Get, "", tombstone}, {job.Undelete, "e3", ok}}, want: job.Live,
		},
		"what the user deleted is revived when the feed wins": {
			change: upsert(), entry: entry(userDeleted, ""), feed: true, talk: []says{{job.Get, "", tombstone}, {job.Undelete, "e3", ok}}, want: job.Live,
		},
		"a tombstone that cannot be revived gets a successor": {
			change: upsert(), entry: entry(deleted, ""),
			talk: []says{{job.Get, "", tombstone}, {job.Undelete, "e3", cancelled}, {job.Insert, "", ok}}, want: job.Live, generation: 1,
		},
		"our tombstone that Google shows no more gets a successor": {
			change: upsert(), entry: entry(deleted, ""),
			talk: []says{
				{job.Get, "", missing},
				{job.Insert, "", duplicate},
				{job.Get, "", missing},
				{job.Get, "", missing},
				{job.Get, "", missing},
				{job.Insert, "", ok},
			},
			want: job.Live, generation: 1,
		},
		"the user's tombstone that Google shows no more stays": {
			change: upsert(), entry: entry(live, "e"),
			talk: []says{
				{job.Patch, "e", missing},
				{job.Get, "", missing},
				{job.Insert, "", duplicate},
				{job.Get, "", missing},
				{job.Get, "", missing},
				{job.Get, "", missing},
			},
			want: job.UserDeleted,
		},
		"a read that lags is repeated": {
			change: upsert(), talk: []says{{job.Insert, "", duplicate}, {job.Get, "", missing}, {job.Get, "", equal}}, want: job.Live,
		},

		"a delete of what is gone: we did it":         {change: remove(), entry: entry(live, "e"), intent: intent(2*time.Minute, del), talk: []says{{job.Delete, "e", gone}}, want: job.Deleted},
		"a delete of what is gone: the user did it":   {change: remove(), entry: entry(live, "e"), talk: []says{{job.Delete, "e", gone}}, want: job.UserDeleted},
		"a delete of what is unknown to Google":       {change: remove(), entry: entry(live, "e"), talk: []says{{job.Delete, "e", missing}}, want: job.Absent},
		"a delete of what the ledger does not know":   {change: remove(), intent: intent(2*time.Minute, up), talk: []says{{job.Get, "", missing}}, want: job.Absent},
		"a delete of what a dead turn inserted":       {change: remove(), intent: intent(time.Second, up), talk: []says{{job.Get, "", equal}, {job.Delete, "e2", ok}}, want: job.Deleted},
		"a delete on a moved etag":                    {change: remove(), entry: entry(live, "e"), talk: []says{{job.Delete, "e", stale}, {job.Get, "", differs}, {job.Delete, "e2", ok}}, want: job.Deleted},
		"a quarantined event that exists is patched":  {change: upsert(), entry: entry(quarantined, "e"), talk: []says{{job.Patch, "e", ok}}, want: job.Live},
		"a quarantined event that never was, is made": {change: upsert(), entry: entry(quarantined, ""), talk: []says{{job.Insert, "", ok}}, want: job.Live},

		"a young intent: 404 proves nothing":             {change: remove(), intent: intent(59*time.Second, up), talk: []says{{job.Get, "", missing}}},
		"a young intent: 410 proves nothing":             {change: remove(), entry: entry(live, "e"), intent: intent(time.Second, up), talk: []says{{job.Delete, "e", gone}}},
		"a young intent: a tombstone proves nothing":     {change: upsert(), intent: intent(time.Second, up), talk: []says{{job.Insert, "", duplicate}, {job.Get, "", tombstone}}},
		"a young intent: a refusal proves nothing":       {change: upsert(), intent: intent(time.Second, up), talk: []says{{job.Insert, "", refused}}},
		"a young intent: our insert occupies the id":     {change: upsert(), intent: intent(time.Second, up), talk: []says{{job.Insert, "", ok}}, want: job.Live},
		"a young intent: equal content is written again": {change: upsert(), intent: intent(time.Second, up), talk: []says{{job.Insert, "", duplicate}, {job.Get, "", equal}, {job.Patch, "e2", ok}}, want: job.Live},
		"an old intent: equal content is enough":         {change: upsert(), intent: intent(time.Minute, up), talk: []says{{job.Insert, "", duplicate}, {job.Get, "", equal}}, want: job.Live},

		"an insert of unknown outcome, that had landed":  {change: upsert(), talk: []says{{job.Insert, "", unknown}, {job.Insert, "", duplicate}, {job.Get, "", equal}, {job.Patch, "e2", ok}}, want: job.Live},
		"an insert of unknown outcome, that had not":     {change: upsert(), talk: []says{{job.Insert, "", unknown}, {job.Insert, "", ok}}, want: job.Live},
		"a patch of unknown outcome, that had landed":    {change: upsert(), entry: entry(live, "e"), talk: []says{{job.Patch, "e", unknown}, {job.Patch, "e", stale}, {job.Get, "", equal}, {job.Patch, "e2", ok}}, want: job.Live},
		"a delete of unknown outcome is looked up later": {change: remove(), entry: entry(live, "e"), talk: []says{{job.Delete, "e", unknown}, {job.Delete, "e", gone}}},

		"an override is patched by its instance id":       {change: override(upsert()), talk: []says{{job.Patch, "", ok}}, want: job.Live},
		"a known override is patched on its etag":         {change: override(upsert()), entry: entry(live, "e"), talk: []says{{job.Patch, "e", ok}}, want: job.Live},
		"an override without etag, old intent":            {change: override(upsert()), intent: intent(time.Minute, up), talk: []says{{job.Patch, "", ok}}, want: job.Live},
		"an override without etag waits for young calls":  {change: override(upsert()), intent: intent(time.Second, up)},
		"an override without etag, outcome unknown":       {change: override(upsert()), talk: []says{{job.Patch, "", unknown}}},
		"an instance that the series does not have":       {change: override(upsert()), talk: []says{{job.Patch, "", missing}, {job.GetMaster, "", differs}}, want: job.Quarantined},
		"an instance of a series that the user deleted":   {change: override(upsert()), talk: []says{{job.Patch, "", missing}, {job.GetMaster, "", tombstone}}, want: job.UserDeleted},
		"an instance that the user deleted":               {change: override(upsert()), talk: []says{{job.Patch, "", cancelled}, {job.Get, "", tombstone}}, want: job.UserDeleted},
		"a written instance that the feed cancels":        {change: override(remove()), entry: entry(live, "e"), talk: []says{{job.Delete, "e", ok}}, want: job.Deleted},
		"a cancelled instance that the feed brings back ": {change: override(upsert()), entry: entry(deleted, ""), talk: []says{{job.Get, "", tombstone}, {job.Undelete, "e3", ok}}, want: job.Live},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settings
			s.FeedWins = tc.feed
			j := job.New(tc.change, tc.entry, tc.intent, s)
			for i, exchange := range tc.talk {
				step := j.Next(now)
				require.Equal(t, job.Send, step.Action, "request %d", i+1)
				require.Equal(t, exchange.verb, step.Call.Verb, "request %d", i+1)
				require.Equal(t, exchange.match, step.Call.IfMatch, "request %d", i+1)
				if i > 0 && step.Call.IfMatch != "" && tc.talk[i-1].verb == job.Get {
					require.True(t, step.Call.Confirm, "a write that acts on a read is confirmed")
				}
				j.Answer(step.Call, exchange.answer, now)
			}
			if tc.want == 0 {
				require.Nil(t, j.Outcome())
				step := j.Next(now)
				require.Equal(t, job.Wait, step.Action)
				require.Positive(t, step.For)
				require.Equal(t, job.Send, j.Next(now.Add(step.For)).Action, "and then it goes on")
				return
			}
			require.NotNil(t, j.Outcome())
			require.Equal(t, tc.want, j.Outcome().Kind)
			require.Equal(t, tc.generation, j.Outcome().Generation)
			require.Equal(t, job.Finished, j.Next(now).Action)
		})
	}
}

func TestAnEndlessConflictIsLeftToTheNextTurn(t *testing.T) {
	t.Parallel()
	j := job.New(upsert(), entry(live, "e"), nil, settings)
	for range 100 {
		step := j.Next(now)
		if step.Action == job.GiveUp {
			return
		}
		answer := stale
		if step.Call.Verb == job.Get {
			answer = differs
		}
		j.Answer(step.Call, answer, now)
	}
	t.Fatal("the job never gives up")
}

func TestOnlyACallOfUnknownOutcomeStaysOpen(t *testing.T) {
	t.Parallel()
	j := job.New(upsert(), nil, nil, settings)
	j.Answer(j.Next(now).Call, throttled, now)
	require.Equal(t, job.Inherited{}, j.Inherited(), "a throttle did nothing")
	j.Answer(j.Next(now).Call, unknown, now.Add(time.Second))
	require.Equal(t, job.Inherited{Upsert: true, At: now.Add(time.Second)}, j.Inherited())
}

func TestWhatTheLedgerShowsAsDone(t *testing.T) {
	t.Parallel()
	same := func(state calferryv1.EntryState) *calferryv1.Entry {
		return &calferryv1.Entry{State: state, ContentHash: target}
	}
	require.True(t, job.Matches(upsert(), same(live), false))
	require.True(t, job.Matches(upsert(), same(quarantined), false), "refused content is not sent again")
	require.False(t, job.Matches(upsert(), entry(live, "e"), false))
	require.False(t, job.Matches(upsert(), entry(quarantined, "e"), false), "new content is")
	require.False(t, job.Matches(upsert(), nil, false))
	require.False(t, job.Matches(upsert(), same(deleted), false))
	require.True(t, job.Matches(upsert(), entry(userDeleted, ""), false))
	require.False(t, job.Matches(upsert(), entry(userDeleted, ""), true))
	require.True(t, job.Matches(remove(), nil, false))
	require.True(t, job.Matches(remove(), entry(deleted, ""), false))
	require.True(t, job.Matches(remove(), entry(userDeleted, ""), false))
	require.False(t, job.Matches(remove(), entry(live, "e"), false))
	require.False(t, job.Matches(remove(), entry(quarantined, "e"), false))
}

func TestWhenOverridesAreWrittenAgain(t *testing.T) {
	t.Parallel()
	known := &calferryv1.Entry{State: live, Etag: "e", ScheduleHash: []byte("weekly")}
	same, moved := upsert(), upsert()
	same.ScheduleHash, moved.ScheduleHash = []byte("weekly"), []byte("daily")
	run := func(c *calferryv1.Change, e *calferryv1.Entry, in *calferryv1.Intent) bool {
		j := job.New(c, e, in, settings)
		j.Answer(j.Next(now).Call, ok, now)
		return j.Outcome().Fresh
	}
	require.False(t, run(same, known, nil))
	require.True(t, run(moved, known, nil))
	require.True(t, run(same, nil, nil), "a new series")
	require.True(t, run(same, known, intent(time.Second, up)), "an earlier turn may have changed the schedule")
}
