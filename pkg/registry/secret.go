package registry

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/seal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// SealFeed seals where a feed comes from, for one subscription's record.
func SealFeed(key *seal.Key, subscription string, feed *calferryv1.FeedSource) ([]byte, error) {
	return sealMessage(key, "feed:"+subscription, feed)
}

// OpenFeed opens the feed source of a subscription, with the feed key.
func OpenFeed(key *seal.Key, subscription *calferryv1.Subscription) (*calferryv1.FeedSource, error) {
	feed := &calferryv1.FeedSource{}
	if err := openMessage(key, "feed:"+subscription.GetId(), subscription.GetSealedFeed(), feed); err != nil {
		return nil, fmt.Errorf("feed address of subscription %s: %w", subscription.GetId(), err)
	}
	return feed, nil
}

// SealCredential seals an account's credential, for that account's record.
func SealCredential(key *seal.Key, account string, credential *calferryv1.Credential) ([]byte, error) {
	return sealMessage(key, "account:"+account, credential)
}

// OpenCredential opens the credential of an account, with the account key.
func OpenCredential(key *seal.Key, account *calferryv1.Account) (*calferryv1.Credential, error) {
	credential := &calferryv1.Credential{}
	if err := openMessage(key, "account:"+account.GetId(), account.GetSealedCredential(), credential); err != nil {
		return nil, fmt.Errorf("credential of account %s: %w", account.GetId(), err)
	}
	return credential, nil
}

func sealMessage(key *seal.Key, context string, secret proto.Message) ([]byte, error) {
	plain, err := proto.Marshal(secret)
	if err != nil {
		// The encoder's error may quote the field that it refused.
		return nil, fmt.Errorf("seal %s: a field is not valid UTF-8", context)
	}
	return key.Seal(plain, []byte(context))
}

func openMessage(key *seal.Key, context string, sealed []byte, secret proto.Message) error {
	plain, err := key.Open(sealed, []byte(context))
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(plain, secret); err != nil {
		return fmt.Errorf("%s opened to something unreadable; enter the secret again", context)
	}
	return nil
}
