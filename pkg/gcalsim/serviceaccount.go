package gcalsim

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	// googleTokenURL is the audience that key files name when nobody changed them.
	googleTokenURL = "https://oauth2.googleapis.com/token"
	keyBits        = 2048
	// jwtLife is the longest a signed request may be good for; clockSkew is what its times may be off by.
	jwtLife   = time.Hour
	clockSkew = 5 * time.Minute
)

// serviceAccount is a robot: it signs for itself, and for people whose domain allows it.
type serviceAccount struct {
	keys      []*rsa.PublicKey
	delegated map[string][]string // address or domain -> scopes
}

// AddServiceAccount makes a service account, unless it exists, with an account of that address, and returns a new key file in
// Google's JSON form. Tokens are asked for at tokenURL. Calendars are shared with it by SetRole.
func (s *Sim) AddServiceAccount(email, tokenURL string) ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("make a key for %s: %w", email, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make a key for %s: %w", email, err)
	}
	s.AddAccount(email)
	s.accounts.mu.Lock()
	robot := s.accounts.robots[email]
	if robot == nil {
		robot = &serviceAccount{delegated: map[string][]string{}}
		s.accounts.robots[email] = robot
	}
	robot.keys = append(robot.keys, &key.PublicKey)
	s.accounts.mu.Unlock()
	id := sha256.Sum256(key.N.Bytes())
	return json.MarshalIndent(map[string]string{
		"type": "service_account", "project_id": "simulated", "private_key_id": hex.EncodeToString(id[:20]),
		"private_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"client_email": email, "client_id": subject(email), "auth_uri": "https://accounts.google.com/o/oauth2/auth", "token_uri": tokenURL,
	}, "", "  ")
}

// Delegate lets a service account act for a person, or for everybody of a domain, within scopes: domain-wide delegation. An
// unknown service account is ignored.
func (s *Sim) Delegate(serviceAccount, addressOrDomain string, scopes ...string) {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	if robot := s.accounts.robots[serviceAccount]; robot != nil {
		robot.delegated[addressOrDomain] = scopes
	}
}

type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Scope    string `json:"scope"`
	Audience string `json:"aud"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// assertion answers a signed request of a service account. The accounts are locked.
func (s *Sim) assertion(c *call, signed string) answer {
	grantError := func(description string) answer {
		return oauthError(http.StatusBadRequest, "invalid_grant", description)
	}
	parts := strings.Split(signed, ".")
	if len(parts) != 3 {
		return oauthError(http.StatusBadRequest, "invalid_request", "Bad Request")
	}
	var header struct{ Alg string }
	var claim claims
	if !decodePart(parts[0], &header) || !decodePart(parts[1], &claim) || header.Alg != "RS256" {
		return grantError("Invalid JWT: the header or the claims could not be read.")
	}
	robot := s.accounts.robots[claim.Issuer]
	if robot == nil {
		return grantError("Invalid grant: account not found")
	}
	if !robot.signed(parts) {
		return grantError("Invalid JWT Signature.")
	}
	now := s.now()
	issued, expires := time.Unix(claim.Issued, 0), time.Unix(claim.Expires, 0)
	if issued.After(now.Add(clockSkew)) || expires.Before(now) || expires.Sub(issued) > jwtLife {
		return grantError("Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. " +
			"Check your iat and exp values in the JWT claim.")
	}
	if to, err := url.Parse(claim.Audience); claim.Audience != googleTokenURL && (err != nil || to.Host != c.http.Host || to.Path != c.http.URL.Path) {
		return grantError("Invalid JWT: Failed audience check.")
	}
	scopes := strings.Fields(claim.Scope)
	if len(scopes) == 0 {
		return oauthError(http.StatusBadRequest, "invalid_scope", "Empty or missing scope not allowed.")
	}
	account := claim.Issuer
	if claim.Subject != "" && claim.Subject != claim.Issuer {
		if _, exists := s.accounts.known[claim.Subject]; !exists {
			return grantError("Invalid email or User ID")
		}
		if !robot.mayActFor(claim.Subject, scopes) {
			return oauthError(http.StatusUnauthorized, "unauthorized_client",
				"Client is unauthorized to retrieve access tokens using this method, or client not authorized for any of the scopes requested.")
		}
		account = claim.Subject
	}
	if s.accounts.revoked[account] {
		return grantError("Account has been deleted")
	}
	out := s.accessAnswer(&grant{account: account, client: s.cfg.ClientID, scopes: scopes}, "")
	delete(out, "scope")
	return ok(out)
}

func decodePart(part string, into any) bool {
	data, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(data, into) == nil
}

func (r *serviceAccount) signed(parts []string) bool {
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return err == nil && slices.ContainsFunc(r.keys, func(key *rsa.PublicKey) bool {
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	})
}

func (r *serviceAccount) mayActFor(address string, scopes []string) bool {
	_, domain, _ := strings.Cut(address, "@")
	for _, who := range []string{address, domain} {
		allowed, known := r.delegated[who]
		if known && !slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(allowed, scope) }) {
			return true
		}
	}
	return false
}
