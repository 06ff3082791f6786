package turn

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// maxUnread is how long an unchanged feed may go unread.
	maxUnread = 7 * 24 * time.Hour
	// maxUnreadWindow is the same for a subscription whose window moves with the days.
	maxUnreadWindow = 24 * time.Hour
)

// basisOf hashes everything but the feed's content that decides about the events: when it changes, the feed
// is read again though it did not. It covers the feed's address and credentials, because another address, or
// another user, may see another feed under the same validators.
func basisOf(sub *calferryv1.Subscription, source *calferryv1.FeedSource, identity calferryv1.Identity) ([]byte, error) {
	sum := sha256.New()
	add := func(part []byte) {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		sum.Write(part)
	}
	add([]byte("calferry basis of " + sub.GetId()))
	add(binary.BigEndian.AppendUint32(nil, plan.MappingVersion))
	add([]byte(sub.GetCalendarTimeZone()))
	add(binary.BigEndian.AppendUint32(nil, uint32(identity)))
	for _, m := range []proto.Message{sub.GetOptions(), source} {
		part, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("hash the basis of subscription %s: %w", sub.GetId(), err)
		}
		add(part)
	}
	return sum.Sum(nil), nil
}

// identityOf is what tells the subscription's events apart; a ledger that does not say means UIDs.
func identityOf(head *ledger.Head) calferryv1.Identity {
	return cmp.Or(head.GetIdentity(), calferryv1.Identity_IDENTITY_UID)
}

// countingValidators returns the head's validators if they count now, else nil: nothing is pending, the basis
// is the same, nothing is to be tried again, and the time to read the feed whole has not come.
func countingValidators(head *ledger.Head, basis []byte, retries uint32, now time.Time) *calferryv1.Validators {
	if !head.IsSettled() || !bytes.Equal(head.GetBasis(), basis) || head.GetMapping() != plan.MappingVersion || retries > head.GetRetried() {
		return nil
	}
	if at := head.GetRefreshAt(); at == nil || !now.Before(at.AsTime()) {
		return nil
	}
	return head.GetValidators()
}

// refreshAt is when the feed must be read whole though it did not change: at the latest at renew, when that is not zero.
func refreshAt(renew time.Time, options *calferryv1.Options, now time.Time) time.Time {
	at := now.Add(maxUnread)
	if options.GetWindowPastDays() > 0 || options.GetWindowFutureDays() > 0 {
		at = now.Add(maxUnreadWindow)
	}
	if !renew.IsZero() && renew.Before(at) {
		at = renew
	}
	return at
}
