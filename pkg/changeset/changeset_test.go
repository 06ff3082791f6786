package changeset_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/changeset"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const limit = 900 << 10

// incompressible returns n changes whose bodies zstd cannot shrink much.
func incompressible(n int) []*calferryv1.Change {
	source := rand.NewChaCha8([32]byte{7})
	changes := make([]*calferryv1.Change, n)
	for i := range changes {
		body := make([]byte, 500)
		_, _ = source.Read(body)
		changes[i] = &calferryv1.Change{Key: fmt.Sprintf("event-%04d", i), Op: calferryv1.Op_OP_UPSERT, Body: body}
	}
	return changes
}

func set(changes []*calferryv1.Change) *calferryv1.ChangeSet {
	return &calferryv1.ChangeSet{
		Subscription: "sub", Sync: 7, Changes: changes, FeedWins: true, Repair: 3, Adopt: true,
		Kind:   calferryv1.ChangeSetKind_CHANGE_SET_KIND_SYNC,
		Target: &calferryv1.Target{Account: "a", CalendarId: "c@group.calendar.google.com"},
	}
}

func TestRoundTripKeepsEverything(t *testing.T) {
	t.Parallel()
	want := set(incompressible(50))
	message, kept, err := changeset.Encode(want, limit)
	require.NoError(t, err)
	require.Equal(t, 50, kept)

	got, err := changeset.Decode(message)
	require.NoError(t, err)
	require.Zero(t, want.GetVersion(), "the caller's change set is left alone")
	want.Version, want.Planned = changeset.Version, 50
	require.True(t, proto.Equal(want, got))
}

func TestCutKeepsTheSoonestAndSaysSo(t *testing.T) {
	t.Parallel()
	changes := incompressible(3000)
	message, kept, err := changeset.Encode(set(changes), limit)
	require.NoError(t, err)
	require.LessOrEqual(t, len(message), limit)
	require.Greater(t, len(message), limit*9/10, "most of the room is used")

	got, err := changeset.Decode(message)
	require.NoError(t, err)
	require.True(t, got.GetCut())
	require.EqualValues(t, 3000, got.GetPlanned(), "the total counts what was left out")
	require.Len(t, got.GetChanges(), kept)
	for i, c := range got.GetChanges() {
		require.Equal(t, changes[i].GetKey(), c.GetKey())
	}
}

func TestReencodingWhatRemainsOfACutSetKeepsItCut(t *testing.T) {
	t.Parallel()
	cs := set(incompressible(3))
	cs.Cut, cs.Planned = true, 900
	message, _, err := changeset.Encode(cs, limit)
	require.NoError(t, err)
	got, err := changeset.Decode(message)
	require.NoError(t, err)
	require.True(t, got.GetCut())
	require.EqualValues(t, 900, got.GetPlanned())
}

func TestOneChangeTooLarge(t *testing.T) {
	t.Parallel()
	_, _, err := changeset.Encode(set(incompressible(4)), 200)
	require.ErrorIs(t, err, changeset.ErrTooLarge)
}

func TestDecodeRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	newer, err := proto.Marshal(&calferryv1.ChangeSet{Version: changeset.Version + 1, Subscription: "sub"})
	require.NoError(t, err)
	unnamed, err := proto.Marshal(&calferryv1.ChangeSet{Version: 1})
	require.NoError(t, err)

	for name, tc := range map[string]struct {
		message []byte
		want    error
	}{
		"newer version":   {enc.EncodeAll(newer, nil), changeset.ErrNewer},
		"no subscription": {enc.EncodeAll(unnamed, nil), changeset.ErrMalformed},
		"not zstd":        {[]byte("hello"), changeset.ErrMalformed},
		"not protobuf":    {enc.EncodeAll([]byte{0xff, 0xff}, nil), changeset.ErrMalformed},
		"empty":           {nil, changeset.ErrMalformed},
	} {
		_, err := changeset.Decode(tc.message)
		require.ErrorIs(t, err, tc.want, name)
	}
}

func TestFieldsOfANewerMinorSurvive(t *testing.T) {
	t.Parallel()
	raw, err := proto.Marshal(&calferryv1.ChangeSet{Version: 1, Subscription: "sub"})
	require.NoError(t, err)
	raw = protowire.AppendTag(raw, 900, protowire.BytesType)
	raw = protowire.AppendString(raw, "later")
	cs := new(calferryv1.ChangeSet)
	require.NoError(t, proto.Unmarshal(raw, cs))

	message, _, err := changeset.Encode(cs, 1000)
	require.NoError(t, err)
	got, err := changeset.Decode(message)
	require.NoError(t, err)
	require.Contains(t, string(got.ProtoReflect().GetUnknown()), "later")
}
