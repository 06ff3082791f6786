package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Revoke gives a grant back to Google: the person's account no longer lists Calferry. Google ends every grant of that person
// to that project with it.
func (f *Flow) Revoke(ctx context.Context, refreshToken string) error {
	body := strings.NewReader(url.Values{"token": {refreshToken}}.Encode())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.cfg.RevokeURL, body)
	if err != nil {
		return errors.New("give the grant back: the address of the revocation endpoint cannot be used; check --google-revoke-url")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := f.client.Do(req)
	if err != nil {
		return fmt.Errorf("give the grant back: %w; it can be removed at https://myaccount.google.com/connections", err)
	}
	defer res.Body.Close()
	// 400 says that it was gone already.
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusBadRequest {
		return fmt.Errorf("give the grant back: Google answered %d; it can be removed at https://myaccount.google.com/connections", res.StatusCode)
	}
	return nil
}
