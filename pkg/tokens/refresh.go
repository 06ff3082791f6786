package tokens

import (
	"bytes"
	"context"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/calferry/calferry/pkg/gcal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// refresh gets a token that is new, whatever kind of credential it takes.
func (b *Broker) refresh(ctx context.Context, record *calferryv1.Account, credential *calferryv1.Credential, stale []byte) grant {
	now := b.cfg.Now()
	refuse := func(why *gcal.Error) grant { return grant{refused: why, refusedAt: now} }

	if record.GetKind() == calferryv1.AccountKind_ACCOUNT_KIND_TOKEN {
		if credential.GetAccessToken() == "" || bytes.Equal(digest(credential.GetAccessToken()), stale) {
			return refuse(&gcal.Error{Class: gcal.AuthRevoked, Reason: "authError", Message: "Google refused the given access token; give a fresh one"})
		}
		return grant{token: credential.GetAccessToken(), expires: now.Add(unknownLife + margin + refreshMargin)}
	}
	source, why := b.grantSource(ctx, record, credential)
	if why != nil {
		return refuse(why)
	}
	token, err := source.Token()
	if err != nil {
		failure := *gcal.Classify(err)
		failure.Ambiguous = false
		if record.GetKind() == calferryv1.AccountKind_ACCOUNT_KIND_SERVICE {
			adviseService(&failure, record, credential)
		}
		return refuse(&failure)
	}
	expires := token.Expiry
	if expires.IsZero() {
		expires = now.Add(unknownLife + margin + refreshMargin)
	}
	if bytes.Equal(digest(token.AccessToken), stale) {
		return refuse(&gcal.Error{Class: gcal.AuthRevoked, Reason: "authError", Message: "Google hands out the same access token again that it refuses"})
	}
	fresh := grant{token: token.AccessToken, expires: expires}
	if old := credential.GetRefreshToken(); old != "" && token.RefreshToken != old {
		fresh.rotated = token.RefreshToken
	}
	return fresh
}

// grantSource makes a source that asks the token endpoint.
func (b *Broker) grantSource(ctx context.Context, record *calferryv1.Account, credential *calferryv1.Credential) (oauth2.TokenSource, *gcal.Error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, b.client)
	if record.GetKind() == calferryv1.AccountKind_ACCOUNT_KIND_SERVICE {
		return serviceSource(ctx, record, credential)
	}
	if credential.GetRefreshToken() == "" {
		return nil, &gcal.Error{Class: gcal.AuthRevoked, Reason: "no refresh token", Message: "the account was connected without offline access"}
	}
	endpoint := google.Endpoint
	if credential.GetTokenUrl() != "" {
		endpoint.TokenURL = credential.GetTokenUrl()
	}
	// The library would try each refresh twice to find out which style the endpoint likes.
	endpoint.AuthStyle = oauth2.AuthStyleInParams
	config := oauth2.Config{ClientID: credential.GetClientId(), ClientSecret: credential.GetClientSecret(), Endpoint: endpoint}
	return config.TokenSource(ctx, &oauth2.Token{RefreshToken: credential.GetRefreshToken()}), nil
}
