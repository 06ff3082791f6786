package calendars_test

import (
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/accounts"
	"github.com/calferry/calferry/services/state/internal/api"
	"github.com/calferry/calferry/services/state/internal/broker"
	"github.com/calferry/calferry/services/state/internal/calendars"
	"github.com/calferry/calferry/services/state/internal/oauth"
)

const ada = "ada@example.com"

// rig is a book over a simulated Google.
type rig struct {
	*testing.T
	sim  *gcalsim.Sim
	keep *accounts.Keeper
	book *calendars.Book

	mu    sync.Mutex
	clock time.Time
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = r.clock.Add(d)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, sim: gcalsim.New(gcalsim.Config{}), clock: time.Now()}
	google := httptest.NewServer(r.sim)
	t.Cleanup(google.Close)
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	reg, err := registry.Open(t.Context(), js)
	require.NoError(t, err)
	key, err := seal.Generate()
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	r.keep = accounts.New(reg, key, google.URL+"/token", r.now)
	client, err := gcal.New(gcal.Config{Endpoint: google.URL}, broker.New(reg, r.keep, nil, log, r.now, prometheus.NewRegistry()))
	require.NoError(t, err)
	r.book = calendars.New(client, reg, r.keep, log)
	return r
}

// connect makes an account with these scopes and returns its id.
func (r *rig) connect(scopes ...string) string {
	r.Helper()
	r.sim.AddAccount(ada)
	account, err := r.keep.Connect(r.Context(), accounts.Connection{
		Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: ada, Scopes: scopes,
		Credential: &calferryv1.Credential{
			RefreshToken: r.sim.IssueRefreshToken(ada, scopes...), ClientId: gcalsim.DefaultClientID, ClientSecret: gcalsim.DefaultClientSecret,
		},
	})
	require.NoError(r, err)
	return account.GetId()
}

func TestACalendarIsMadeOnceWhateverIsLost(t *testing.T) {
	t.Parallel()
	creates := gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpCalendarInsert}}
	for name, rule := range map[string]gcalsim.Rule{
		"made, answer lost":      {Match: creates, Fault: gcalsim.FaultReset, After: true, Times: 1},
		"made, answer cut":       {Match: creates, Fault: gcalsim.FaultTruncated, Times: 1},
		"made, error of a proxy": {Match: creates, Fault: gcalsim.FaultUnavailable, After: true, Times: 1},
		"not made, error":        {Match: creates, Fault: gcalsim.FaultBackend, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			account := r.connect(oauth.ScopeAppCreated, oauth.ScopeListRead)
			before := len(r.sim.Calendars())
			r.sim.Fail(rule)
			_, err := r.book.Create(t.Context(), account, "Terms", "Europe/Vienna")
			require.ErrorIs(t, err, api.ErrUnanswered)
			_, err = r.book.Create(t.Context(), account, "Terms", "Europe/Vienna")
			require.ErrorIs(t, err, accounts.ErrCreating, "the first request may still be on its way")
			r.pass(2 * time.Minute)
			made, err := r.book.Create(t.Context(), account, "Terms", "Europe/Vienna")
			require.NoError(t, err)
			require.Equal(t, "Terms", made.Summary)
			require.Equal(t, "Europe/Vienna", made.TimeZone)
			require.True(t, made.Writable)
			require.Len(t, r.sim.Calendars(), before+1, "never two")
			require.Contains(t, r.sim.Calendars(), made.ID)

			second, err := r.book.Create(t.Context(), account, "Terms", "UTC")
			require.NoError(t, err, "a new wish for the same name is another calendar")
			require.NotEqual(t, made.ID, second.ID)
		})
	}
}

func TestWhereTheListCannotBeSeenNothingIsMadeTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect(oauth.ScopeAppCreated)
	before := len(r.sim.Calendars())
	r.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpCalendarInsert}}, Fault: gcalsim.FaultReset, After: true, Times: 1})
	_, err := r.book.Create(t.Context(), account, "Terms", "UTC")
	require.ErrorIs(t, err, api.ErrUnanswered)
	r.pass(2 * time.Minute)
	_, err = r.book.Create(t.Context(), account, "Terms", "UTC")
	require.ErrorIs(t, err, api.ErrUnanswered)
	require.ErrorContains(t, err, "another name")
	require.Len(t, r.sim.Calendars(), before+1)
	_, err = r.book.Create(t.Context(), account, "Terms of 2027", "UTC")
	require.NoError(t, err)
	_, _, err = r.book.List(t.Context(), account, "", 0)
	require.ErrorIs(t, err, api.ErrListHidden)
}

func TestARefusedCalendarMayBeAskedForAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect(oauth.ScopeAppCreated)
	r.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpCalendarInsert}}, Fault: gcalsim.FaultQuota, Times: 1})
	_, err := r.book.Create(t.Context(), account, "Terms", "UTC")
	var failure *gcal.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, gcal.UsageLimited, failure.Class)
	_, err = r.book.Create(t.Context(), account, "Terms", "UTC")
	require.NoError(t, err, "it was refused, so there is none")
}

func TestListIsPagedAndTellsWhatMayBeWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect(oauth.ScopeEvents, oauth.ScopeListRead)
	for _, id := range []string{"team", "school", "club"} {
		require.NoError(t, r.sim.AddCalendar(id+"@group.calendar.google.com", "Europe/Vienna", gcalsim.Titled(id), gcalsim.OwnedBy(ada)))
	}
	r.sim.SetRole("club@group.calendar.google.com", ada, gcalsim.RoleReader)
	var all []api.ListedCalendar
	pages := 0
	for page := ""; ; pages++ {
		listed, next, err := r.book.List(t.Context(), account, page, 2)
		require.NoError(t, err)
		require.LessOrEqual(t, len(listed), 2)
		all = append(all, listed...)
		if page = next; page == "" {
			break
		}
	}
	require.Positive(t, pages)
	writable := map[string]bool{}
	primaries := 0
	for _, c := range all {
		writable[c.Summary] = c.Writable
		if c.Primary {
			primaries++
		}
	}
	require.Equal(t, 1, primaries)
	require.True(t, writable["team"])
	require.False(t, writable["club"])

	primary, err := r.book.Look(t.Context(), account, gcal.Primary)
	require.NoError(t, err)
	require.Equal(t, ada, primary.ID, "its real id")
	require.True(t, slices.ContainsFunc(r.sim.Log(), func(q gcalsim.Request) bool {
		return q.Op == gcalsim.OpEntryGet && strings.HasSuffix(q.Path, "/primary")
	}), "Google was asked for it")
}

func TestPrimaryOfAnAccountThatHidesItsList(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect(oauth.ScopeEvents)
	_, err := r.book.Create(t.Context(), account, "Terms", "UTC")
	require.ErrorIs(t, err, api.ErrMayNotMake)
	primary, err := r.book.Look(t.Context(), account, gcal.Primary)
	require.NoError(t, err)
	require.Equal(t, ada, primary.ID)
}
