package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// ErrNotGivenBack says that an account is removed here, but that Google may still list the grant.
var ErrNotGivenBack = errors.New("the account is removed, but its grant was not given back to Google")

// Remove forgets an account and gives its grant back to Google, unless another account lives on it. It returns ErrInUse
// while subscriptions name the account, and ErrNotGivenBack when only the last step failed.
func (k *Keeper) Remove(ctx context.Context, id string) error {
	rec, err := k.registry.Account(ctx, id)
	if err != nil {
		return fmt.Errorf("remove account: %w", err)
	}
	if err := k.unused(ctx, id); err != nil {
		return fmt.Errorf("remove account %s: %w", id, err)
	}
	if err := k.registry.DeleteAccount(ctx, rec); err != nil {
		return fmt.Errorf("remove account: %w", err)
	}
	return k.giveBack(ctx, rec.Value)
}

// unused returns ErrInUse while subscriptions name the account.
func (k *Keeper) unused(ctx context.Context, id string) error {
	var users []string
	for s, err := range k.registry.Subscriptions(ctx) {
		if unreadable, ok := errors.AsType[*registry.RecordError](err); ok {
			return fmt.Errorf("subscription %s cannot be read, and may use it: %w", unreadable.ID, ErrInUse)
		}
		if err != nil {
			return err
		}
		if s.Value.GetTarget().GetAccount() == id {
			users = append(users, s.Value.GetName())
		}
	}
	if len(users) > 0 {
		return fmt.Errorf("%w (%s); remove those first", ErrInUse, strings.Join(users, ", "))
	}
	return nil
}

// giveBack revokes the grant of an account that is gone. Google revokes all grants of one person to one project together, so
// the grant stays while another account is the same person in the same project.
func (k *Keeper) giveBack(ctx context.Context, gone *calferryv1.Account) error {
	if k.revoke == nil || gone.GetKind() != calferryv1.AccountKind_ACCOUNT_KIND_OAUTH || gone.GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT {
		return nil
	}
	for rec, err := range k.registry.Accounts(ctx) {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotGivenBack, err)
		}
		if rec.Value.GetProject() == gone.GetProject() && !other(rec.Value, Connection{GoogleSub: gone.GetGoogleSub(), Email: gone.GetEmail()}) {
			return nil
		}
	}
	credential, err := k.Credential(gone)
	if err == nil {
		err = k.revoke(ctx, credential.GetRefreshToken())
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotGivenBack, err)
	}
	return nil
}
