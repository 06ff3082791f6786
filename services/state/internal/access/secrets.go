package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	secretsKey     = "shared"
	sessionContext = "session"
	secretsVersion = 1
)

// Secrets are what all replicas share about who is signed in.
type Secrets struct {
	// SessionKey signs sessions; empty when the process has no account key to keep it under.
	SessionKey []byte
	// TokenHash is the SHA-256 of the token that was made, nil when none was.
	TokenHash []byte
}

func randomKey() []byte {
	key := make([]byte, sha256.Size)
	rand.Read(key) // never fails
	return key
}

// OpenSecrets reads the shared secrets from the access bucket, and makes what is missing: a session key, and with
// makeToken a token. made is the new token, to be shown once and kept nowhere; it is empty when there is one already,
// which nobody can read back.
func OpenSecrets(ctx context.Context, js jetstream.JetStream, key *seal.Key, makeToken bool) (secrets *Secrets, made string, err error) {
	kv, err := js.KeyValue(ctx, streams.BucketAccess)
	if err != nil {
		return nil, "", fmt.Errorf("open bucket %q (run `calferry provision` once): %w", streams.BucketAccess, err)
	}
	for {
		stored, revision, err := readSecrets(ctx, kv)
		if err != nil {
			return nil, "", err
		}
		secrets, made, changed, err := complete(stored, key, makeToken)
		if err != nil || !changed {
			return secrets, made, err
		}
		value, err := proto.Marshal(stored)
		if err != nil {
			return nil, "", err
		}
		if revision == 0 {
			_, err = kv.Create(ctx, secretsKey, value)
		} else {
			_, err = kv.Update(ctx, secretsKey, value, revision)
		}
		if err == nil {
			return secrets, made, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return nil, "", fmt.Errorf("keep what replicas share about who is signed in: %w", err)
		}
		// Another replica was faster: its secrets are the ones.
	}
}

func readSecrets(ctx context.Context, kv jetstream.KeyValue) (*calferryv1.AccessSecret, uint64, error) {
	stored := new(calferryv1.AccessSecret)
	entry, err := kv.Get(ctx, secretsKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return stored, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read what replicas share about who is signed in: %w", err)
	}
	if err := proto.Unmarshal(entry.Value(), stored); err != nil {
		return nil, 0, fmt.Errorf("decode what replicas share about who is signed in: %w", err)
	}
	if stored.GetVersion() > secretsVersion {
		return nil, 0, errors.New("what replicas share about who is signed in was written by a newer version of Calferry; upgrade this replica")
	}
	return stored, entry.Revision(), nil
}

// complete opens what is stored and adds what is missing.
func complete(stored *calferryv1.AccessSecret, key *seal.Key, makeToken bool) (secrets *Secrets, made string, changed bool, err error) {
	stored.Version = secretsVersion
	secrets = &Secrets{}
	if key != nil {
		if len(stored.GetSealedSessionKey()) > 0 {
			// A key that does not open was kept under an account key that is gone: sessions begin anew.
			secrets.SessionKey, _ = key.Open(stored.GetSealedSessionKey(), []byte(sessionContext))
		}
		if len(secrets.SessionKey) == 0 {
			secrets.SessionKey, changed = randomKey(), true
			if stored.SealedSessionKey, err = key.Seal(secrets.SessionKey, []byte(sessionContext)); err != nil {
				return nil, "", false, fmt.Errorf("seal the session key: %w", err)
			}
		}
	}
	if makeToken {
		if len(stored.GetTokenHash()) == 0 {
			made, changed = rand.Text(), true
			hash := sha256.Sum256([]byte(made))
			stored.TokenHash = hash[:]
		}
		secrets.TokenHash = stored.GetTokenHash()
	}
	return secrets, made, changed, nil
}
