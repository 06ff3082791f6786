package alerts

import (
	"context"
	"fmt"
	"strings"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// confirm asks the buckets themselves about all that would open or end an incident, and puts the answers on the board. The
// incidents were read before, so an answer is newer than they are: without it a replica whose board lags would end what
// another one has just opened, or open again what is over. It returns the incidents that may be opened or ended now.
func (k *Keeper) confirm(ctx context.Context, known map[string]*stored, now time.Time) (sure map[string]bool, errs []error) {
	sure = map[string]bool{}
	ask := func(key string) {
		if err := k.refresh(ctx, key); err != nil {
			errs = append(errs, fmt.Errorf("look whether %s is so: %w", key, err))
			return
		}
		sure[key] = true
	}
	wrong := map[string]bool{}
	for _, f := range Find(k.board.Rows(), k.board.Accounts(), k.settings, now) {
		wrong[f.key()] = true
	}
	for key := range wrong {
		if i, exists := known[key]; !exists || i != nil && i.GetResolvedAt() != nil {
			ask(key)
		}
	}
	for key, i := range known {
		if i != nil && i.GetResolvedAt() == nil && !wrong[key] {
			ask(key)
		}
	}
	return sure, errs
}

// refresh brings the board up to date about the subject of an incident.
func (k *Keeper) refresh(ctx context.Context, key string) error {
	kind, subject, _ := strings.Cut(key, ".")
	switch kind {
	case kindName(calferryv1.AlertKind_ALERT_KIND_RECONNECT), kindName(calferryv1.AlertKind_ALERT_KIND_GRANT_ENDS):
		return k.board.RefreshAccount(ctx, subject)
	default:
		return k.board.Refresh(ctx, subject)
	}
}
