package accounts

import (
	"context"
	"errors"
	"fmt"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Rekey seals again every credential that was not sealed with the newest key, and returns how many it sealed. It may run
// on several replicas at once and be repeated: a record that another has done, or has changed, is not touched. What cannot
// be opened is left as it is and told in the error, after all others are done.
func (k *Keeper) Rekey(ctx context.Context) (int, error) {
	if k.key == nil {
		return 0, fmt.Errorf("seal credentials again: %w", ErrNoKey)
	}
	done := 0
	var failed []error
	for rec, err := range k.registry.Accounts(ctx) {
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if !k.key.Stale(rec.Value.GetSealedCredential()) {
			continue
		}
		_, err := k.registry.UpdateAccount(ctx, rec.Value.GetId(), k.reseal)
		if err == nil {
			done++
		}
		failed = append(failed, unchanged("seal the credential of account "+rec.Value.GetId()+" again", err))
	}
	return done, errors.Join(failed...)
}

func (k *Keeper) reseal(a *calferryv1.Account) error {
	if !k.key.Stale(a.GetSealedCredential()) {
		return errUnchanged
	}
	credential, err := registry.OpenCredential(k.key, a)
	if err != nil {
		return err
	}
	a.SealedCredential, err = registry.SealCredential(k.key, a.GetId(), credential)
	return err
}
