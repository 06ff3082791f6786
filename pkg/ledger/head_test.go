package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/ledger"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func TestRenamedIntentsKeepWhatIsOpen(t *testing.T) {
	t.Parallel()
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	h := &ledger.Head{Head: &calferryv1.Head{}}
	h.OpenIntent("#1", calferryv1.Op_OP_DELETE, "later", at.Add(time.Minute))
	h.OpenIntent("a", calferryv1.Op_OP_UPSERT, "earlier", at)
	h.OpenIntent("#2", calferryv1.Op_OP_DELETE, "alone", at)
	h.OpenIntent("c", calferryv1.Op_OP_UPSERT, "untouched", at)
	h.RenameIntents(map[string]string{"#1": "a", "#2": "b", "#3": "c"})
	require.Len(t, h.GetIntents(), 3)
	a := h.Intent("a")
	require.True(t, a.GetUpsert() && a.GetDelete(), "both may still land")
	require.Equal(t, "later", a.GetToken())
	require.Equal(t, at.Add(time.Minute), a.GetAt().AsTime(), "and the later of them proves nothing sooner")
	require.Equal(t, "alone", h.Intent("b").GetToken())
	require.Equal(t, "untouched", h.Intent("c").GetToken())
}
