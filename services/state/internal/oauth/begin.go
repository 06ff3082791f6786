package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/oauth2"
)

// sealContext is what states are sealed for, so that no other sealed value is taken for one.
const sealContext = "connect"

// Wish is what a consent is for.
type Wish struct {
	// Account is the account to reconnect, or the id that the new one will have.
	Account string `json:"a"`
	// New tells the one from the other.
	New bool `json:"n,omitempty"`
	// Connected is when the account to reconnect was last connected: a state is good until that changes.
	Connected time.Time `json:"t,omitzero"`
	// Client is the name of an OAuth client; the first one when empty.
	Client string `json:"c,omitempty"`
	// Redirect is where Google sends the browser back to.
	Redirect string `json:"r"`
	// Scopes are those that must be granted, without those that tell who consents.
	Scopes []string `json:"s"`
	// Existing tells whether existing calendars shall be offered afterwards.
	Existing bool `json:"e,omitempty"`
	// Fresh tells whether the right to make calendars was asked for beside others.
	Fresh bool `json:"f,omitempty"`
	// Email is the address of the account to reconnect, so that Google proposes it.
	Email string `json:"-"`
	// Session binds the consent to one browser, if it is not empty: Finish must be given the same. It is a secret of that
	// browser, and the state holds only a hash of it.
	Session string `json:"-"`
}

// pending is what a state holds.
type pending struct {
	Wish
	Began    time.Time `json:"b"`
	Verifier string    `json:"v"`
	Bound    []byte    `json:"h,omitempty"`
	ClientID string    `json:"i"`
}

// Begin returns where the browser must go, and the state that will come back.
func (f *Flow) Begin(w Wish) (url, state string, err error) {
	if f.key == nil {
		return "", "", errors.New("begin sign-in: the account key is not configured for this service; set its key file")
	}
	client, err := f.find(w.Client)
	if err != nil {
		return "", "", fmt.Errorf("begin sign-in: %w", err)
	}
	p := pending{Wish: w, Began: f.now(), Verifier: oauth2.GenerateVerifier(), ClientID: client.ID}
	if w.Session != "" {
		p.Bound = bound(w.Session)
	}
	plain, err := json.Marshal(p)
	if err != nil {
		return "", "", fmt.Errorf("begin sign-in: %w", err)
	}
	sealed, err := f.key.Seal(plain, []byte(sealContext))
	if err != nil {
		return "", "", fmt.Errorf("begin sign-in: %w", err)
	}
	state = base64.RawURLEncoding.EncodeToString(sealed)
	// Consent is asked for each time, because only then a refresh token comes along. include_granted_scopes stays off: what
	// was once granted to this client, by whatever way, shall not creep into the new grant.
	options := []oauth2.AuthCodeOption{oauth2.AccessTypeOffline, oauth2.S256ChallengeOption(p.Verifier), oauth2.SetAuthURLParam("prompt", "consent")}
	if w.Email != "" {
		options = append(options, oauth2.SetAuthURLParam("login_hint", w.Email))
	}
	scopes := append([]string{scopeOpenID, scopeEmail}, w.Scopes...)
	return f.library(client, w.Redirect, scopes).AuthCodeURL(state, options...), state, nil
}

// Peek returns what a state is for, whether it is still good or not, so that a person can begin again. It fails with
// ErrState.
func (f *Flow) Peek(state string) (Wish, error) {
	p, err := f.open(state)
	return p.Wish, err
}

func (f *Flow) open(state string) (pending, error) {
	var p pending
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil || f.key == nil {
		return p, fmt.Errorf("%w; begin again", ErrState)
	}
	plain, err := f.key.Open(sealed, []byte(sealContext))
	if err != nil || json.Unmarshal(plain, &p) != nil {
		return pending{}, fmt.Errorf("%w; begin again", ErrState)
	}
	return p, nil
}

// check refuses a state that is too old, or that another browser brings.
func (p pending) check(now time.Time, session string) error {
	if len(p.Bound) > 0 && subtle.ConstantTimeCompare(p.Bound, bound(session)) != 1 {
		return fmt.Errorf("%w; begin again in this one", ErrOtherBrowser)
	}
	if now.After(p.Began.Add(Patience)) {
		return fmt.Errorf("%w, more than %s; begin again", ErrExpired, Patience)
	}
	return nil
}

func bound(session string) []byte {
	sum := sha256.Sum256([]byte("session\x00" + session))
	return sum[:]
}
