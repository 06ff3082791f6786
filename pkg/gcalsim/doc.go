// Package gcalsim is a Google Calendar API v3 that runs in memory, so that everything Calferry promises about Google can be
// tested, and shown, without Google.
//
// A [Sim] is an http.Handler. It serves the API under /calendar/v3/, the OAuth endpoints (below), a page for people under / and a
// control API under /control/. It promises four things:
//
//   - It answers as Google does: the same envelopes, reasons and messages, ids that are never released, etags that refuse stale
//     writes, series with instances and exceptions. Where nobody knows what Google does, [Behaviour] has a switch.
//   - It limits as Google does, and as Google might: per calendar, per user, per project and per account, see [Limit] and [Limits].
//   - It fails when told to: [Sim.Fail] scripts faults before and after the write is kept, [Sim.Hold] stops a request in front of
//     the store and lets it go whenever the test wants, even after the client hung up.
//   - It remembers: [Sim.Log] has every request with its outcome, so pace, order and waste can be asserted.
//
// # OAuth
//
// The endpoints hold the same roles as Google's:
//
//	GET, POST /o/oauth2/v2/auth   the consent page (accounts.google.com/o/oauth2/v2/auth)
//	POST      /token              codes, refresh tokens, signed requests of service accounts (oauth2.googleapis.com/token)
//	POST      /revoke             token=, an access or a refresh token (oauth2.googleapis.com/revoke)
//	GET       /userinfo           sub, email, name, as far as the scopes go (openidconnect.googleapis.com/v1/userinfo)
//
// The consent page takes client_id, redirect_uri, response_type=code, scope, state, code_challenge with code_challenge_method,
// access_type, prompt, login_hint and include_granted_scopes in its query, and is a plain form that posts back to the same
// address. Its controls, by name and by label:
//
//	account        radio buttons, labelled with the address of each account
//	other_account  a text field, "Use another account"; it wins, and makes the account when there is none
//	scope          a checkbox for each scope that can be refused, labelled with what Google calls it
//	decision       buttons: allow ("Continue") and deny ("Cancel")
//
// The answer is a redirect with code, scope and state, or with error=access_denied. A request that is wrong in itself gets a page
// and no redirect. Codes are bound to client, redirect and challenge, and good once within ten minutes. A refresh token comes
// with access_type=offline at the first consent, and later only with prompt=consent; it is refused after [Sim.SetRefreshTTL], of
// which the token answer tells in refresh_token_expires_in. The scope of the token answer names what was granted, in Google's
// long form ("email" becomes a URL); an id_token comes with the scope openid, and is not signed.
//
// A request that arrived is carried out even when its client is gone. All methods are safe for concurrent use.
package gcalsim
