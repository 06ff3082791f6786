package gcalsim

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// The scopes a token can carry.
const (
	ScopeCalendar         = "https://www.googleapis.com/auth/calendar"
	ScopeAppCreated       = "https://www.googleapis.com/auth/calendar.app.created"
	ScopeEvents           = "https://www.googleapis.com/auth/calendar.events"
	ScopeEventsOwned      = "https://www.googleapis.com/auth/calendar.events.owned"
	ScopeCalendars        = "https://www.googleapis.com/auth/calendar.calendars"
	ScopeCalendarList     = "https://www.googleapis.com/auth/calendar.calendarlist"
	ScopeCalendarListRead = "https://www.googleapis.com/auth/calendar.calendarlist.readonly"
)

// scopesOf lists who may call what, from the API's discovery document.
var scopesOf = map[Op][]string{
	OpCalendarInsert: {ScopeCalendar, ScopeAppCreated, ScopeCalendars},
	OpCalendarGet:    {ScopeCalendar, ScopeAppCreated, ScopeCalendars},
	OpCalendarPatch:  {ScopeCalendar, ScopeAppCreated, ScopeCalendars},
	OpCalendarPut:    {ScopeCalendar, ScopeAppCreated, ScopeCalendars},
	OpCalendarDelete: {ScopeCalendar, ScopeAppCreated, ScopeCalendars},
	OpEntryList:      {ScopeCalendar, ScopeCalendarList, ScopeCalendarListRead},
	OpEntryGet:       {ScopeCalendar, ScopeAppCreated, ScopeCalendarList, ScopeCalendarListRead},
	OpEntryPatch:     {ScopeCalendar, ScopeAppCreated, ScopeCalendarList},
	OpEntryDelete:    {ScopeCalendar, ScopeAppCreated, ScopeCalendarList},
	OpEntryInsert:    {ScopeCalendar, ScopeCalendarList},
	OpUserInfo:       {ScopeOpenID, ScopeEmail, ScopeProfile},
}

var eventScopes = []string{ScopeCalendar, ScopeAppCreated, ScopeEvents, ScopeEventsOwned}

// Account is a Google account: who it is, and the refresh token of its first grant.
type Account struct {
	Email        string `json:"email"`
	Subject      string `json:"sub"`
	RefreshToken string `json:"refresh_token,omitempty"`
}

// grant is what a token stands for.
type grant struct {
	account string
	client  string
	scopes  []string
	expires time.Time // zero: never
	refresh string    // the refresh token an access token came from
}

func (g *grant) expired(now time.Time) bool { return !g.expires.IsZero() && !now.Before(g.expires) }

func (g *grant) allows(op Op) bool {
	allowed, ok := scopesOf[op]
	if !ok {
		allowed = eventScopes
	}
	return slices.ContainsFunc(g.scopes, func(s string) bool { return slices.Contains(allowed, s) })
}

// appOnly says whether the grant reaches only calendars that the app made.
func (g *grant) appOnly(op Op) bool {
	return !slices.ContainsFunc(g.scopes, func(s string) bool { return s != ScopeAppCreated && (&grant{scopes: []string{s}}).allows(op) })
}

// accounts knows who exists and which tokens are good.
type accounts struct {
	mu      sync.RWMutex
	known   map[string]*Account
	revoked map[string]bool
	access  map[string]*grant
	refresh map[string]*grant
	codes   map[string]*authCode
	granted map[grantee][]string
	clients map[string]Client
	robots  map[string]*serviceAccount
	// refreshTTL bounds new refresh tokens, as of apps that are in testing; 0 is for good.
	refreshTTL time.Duration
	outage     *problem
	serial     int
}

// grantee is an account's relation to one client, which remembers what was agreed to.
type grantee struct{ account, client string }

func newAccounts(client Client) *accounts {
	a := &accounts{}
	a.reset(client)
	return a
}

func (a *accounts) reset(client Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.revoked = map[string]*Account{}, map[string]bool{}
	a.access, a.refresh, a.codes = map[string]*grant{}, map[string]*grant{}, map[string]*authCode{}
	a.granted, a.robots, a.clients = map[grantee][]string{}, map[string]*serviceAccount{}, map[string]Client{client.ID: client}
	a.refreshTTL, a.outage = 0, nil
}

func (a *accounts) bearer(header string) *grant {
	token, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		return nil
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.access[token]
}

// mint makes a token nobody can mistake for a real one. The lock is held.
func (a *accounts) mint(kind string) string {
	a.serial++
	return fmt.Sprintf("sim-%s-%d", kind, a.serial)
}

// AddAccount makes an account and its primary calendar, unless they exist, and returns it with a refresh token for the full
// calendar scope.
func (s *Sim) AddAccount(email string) Account {
	s.accounts.mu.Lock()
	acc, known := s.accounts.known[email]
	if !known {
		acc = &Account{Email: email, Subject: subject(email)}
		s.accounts.known[email] = acc
		acc.RefreshToken = s.accounts.newRefresh(s.now(), email, s.cfg.ClientID, []string{ScopeCalendar})
	}
	out := *acc
	s.accounts.mu.Unlock()
	if !known {
		// UTC is a zone everywhere, so this cannot fail.
		_ = s.AddCalendar(email, "UTC", OwnedBy(email), Titled(email), NotAppCreated())
	}
	return out
}

// subject is the account's stable number, as in an OpenID token.
func subject(email string) string {
	sum := sha256.Sum256([]byte(email))
	n := uint64(0)
	for _, b := range sum[:8] {
		n = n<<8 | uint64(b)
	}
	return fmt.Sprintf("1%020d", n)
}

func (a *accounts) newRefresh(now time.Time, email, client string, scopes []string) string {
	token := a.mint("refresh")
	g := &grant{account: email, client: client, scopes: scopes}
	if a.refreshTTL > 0 {
		g.expires = now.Add(a.refreshTTL)
	}
	a.refresh[token] = g
	return token
}

// SetRefreshTTL bounds the life of refresh tokens that are issued from now on, by the simulator's clock: seven days is what apps
// get that are in testing. 0 is for good.
func (s *Sim) SetRefreshTTL(d time.Duration) {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	s.accounts.refreshTTL = d
}

// IssueToken returns a fresh access token of an account, which is made if it does not exist. Without scopes it has the full
// calendar scope. It expires by the simulator's clock after Config.TokenTTL.
func (s *Sim) IssueToken(account string, scopes ...string) string {
	s.AddAccount(account)
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	token := s.accounts.mint("access")
	s.accounts.access[token] = &grant{
		account: account, client: s.cfg.ClientID, scopes: orFull(scopes), expires: s.now().Add(s.cfg.TokenTTL),
	}
	return token
}

// AcceptToken makes a token of the caller's choice good until the account is revoked.
func (s *Sim) AcceptToken(token, account string, scopes ...string) {
	s.AddAccount(account)
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	s.accounts.access[token] = &grant{account: account, client: s.cfg.ClientID, scopes: orFull(scopes)}
}

// IssueRefreshToken returns a refresh token with these scopes, or the full calendar scope.
func (s *Sim) IssueRefreshToken(account string, scopes ...string) string {
	s.AddAccount(account)
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	return s.accounts.newRefresh(s.now(), account, s.cfg.ClientID, orFull(scopes))
}

// IssueCode returns an authorization code, as if a person had consented, to identity and offline access
// too; /token takes it once, with any redirect and without a verifier.
func (s *Sim) IssueCode(account string, scopes ...string) string {
	s.AddAccount(account)
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	code := s.accounts.mint("code")
	scopes = append(slices.Clone(orFull(scopes)), ScopeOpenID, ScopeEmail)
	s.accounts.codes[code] = &authCode{
		grant: &grant{account: account, client: s.cfg.ClientID, scopes: scopes}, offline: true, expires: s.now().Add(codeTTL),
	}
	return code
}

func orFull(scopes []string) []string {
	if len(scopes) == 0 {
		return []string{ScopeCalendar}
	}
	return scopes
}

// ExpireTokens makes every access token of an account answer 401; its refresh tokens stay good.
func (s *Sim) ExpireTokens(account string) {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	maps.DeleteFunc(s.accounts.access, func(_ string, g *grant) bool { return g.account == account })
}

// Revoke takes the app's access to an account away: its access tokens answer 401, its refresh tokens invalid_grant.
func (s *Sim) Revoke(account string) {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	a := s.accounts
	a.revoked[account] = true
	mine := func(_ string, g *grant) bool { return g.account == account }
	maps.DeleteFunc(a.refresh, mine)
	maps.DeleteFunc(a.codes, func(_ string, c *authCode) bool { return c.grant.account == account })
	maps.DeleteFunc(a.granted, func(g grantee, _ []string) bool { return g.account == account })
	maps.DeleteFunc(a.access, func(_ string, g *grant) bool { return g.account == account && !g.expires.IsZero() })
}

// Reconnect is the person consenting again. It returns a new refresh token; tokens of AcceptToken are good again, all other
// earlier ones stay dead.
func (s *Sim) Reconnect(account string, scopes ...string) string {
	s.AddAccount(account)
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	delete(s.accounts.revoked, account)
	token := s.accounts.newRefresh(s.now(), account, s.cfg.ClientID, orFull(scopes))
	s.accounts.known[account].RefreshToken = token
	return token
}

// authorize says why a call may not be made at all.
func (s *Sim) authorize(c *call) *problem {
	if s.disabled.Load() && c.op != OpUserInfo {
		return apiDisabled(s.project(c))
	}
	if c.http.Header.Get("Authorization") == "" {
		return loginRequired()
	}
	if c.grant == nil || c.grant.expired(s.now()) {
		return invalidCredentials()
	}
	s.accounts.mu.RLock()
	revoked := s.accounts.revoked[c.grant.account]
	s.accounts.mu.RUnlock()
	if revoked {
		return invalidCredentials()
	}
	if !c.grant.allows(c.op) {
		return scopeInsufficient(c.op.method())
	}
	return nil
}

// project is the number of the Google project a call is made for: the client id's leading digits.
func (s *Sim) project(c *call) string {
	client := s.cfg.ClientID
	if c.grant != nil {
		client = c.grant.client
	}
	number, _, _ := strings.Cut(client, "-")
	return number
}
