package tokens

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/calferry/calferry/pkg/gcal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// defaultScope is asked for by service accounts that name no scopes.
const defaultScope = "https://www.googleapis.com/auth/calendar"

// ErrServiceAccount says that a key file is not one of a service account.
var ErrServiceAccount = errors.New("not the key file of a service account")

// ServiceAccount is what a key file says of its service account, without the key.
type ServiceAccount struct {
	Email     string `json:"client_email"`
	ClientID  string `json:"client_id"`
	ProjectID string `json:"project_id"`
}

// ReadServiceAccount reads a key file in Google's JSON form. Its error, ErrServiceAccount, holds nothing
// of the file.
func ReadServiceAccount(key []byte) (ServiceAccount, error) {
	var account ServiceAccount
	config, err := google.JWTConfigFromJSON(key)
	if err != nil || !readableKey(config.PrivateKey) || json.Unmarshal(key, &account) != nil || account.Email == "" {
		return ServiceAccount{}, fmt.Errorf("%w; download one in JSON form from the Google Cloud console (IAM, Service accounts, Keys)", ErrServiceAccount)
	}
	return account, nil
}

func serviceScopes(record *calferryv1.Account) []string {
	if scopes := record.GetScopes(); len(scopes) > 0 {
		return scopes
	}
	return []string{defaultScope}
}

func serviceSource(ctx context.Context, record *calferryv1.Account, credential *calferryv1.Credential) (oauth2.TokenSource, *gcal.Error) {
	config, err := google.JWTConfigFromJSON(credential.GetServiceAccountJson(), serviceScopes(record)...)
	// Neither error is shown: it might quote the key.
	if err != nil || !readableKey(config.PrivateKey) {
		return nil, &gcal.Error{Class: gcal.Operator, Reason: "service account", Message: "the service account's key file is unreadable; download it again from the Google Cloud console"}
	}
	config.Subject = credential.GetSubject()
	if credential.GetTokenUrl() != "" {
		config.TokenURL = credential.GetTokenUrl()
	}
	return config.TokenSource(ctx), nil
}

// adviseService says what an administrator can do about a refused service account.
func adviseService(failure *gcal.Error, record *calferryv1.Account, credential *calferryv1.Credential) {
	account, err := ReadServiceAccount(credential.GetServiceAccountJson())
	if err != nil {
		return
	}
	subject := credential.GetSubject()
	switch {
	case failure.Reason == "unauthorized_client" && subject != "":
		failure.Message = fmt.Sprintf("the service account may not act for %s: in the Google Admin console, under Security, API controls, Domain-wide delegation, "+
			"add the client id %s with the scope %s; a change there can take a day", subject, account.ClientID, strings.Join(serviceScopes(record), ","))
	case failure.Reason == "invalid_grant" && subject != "":
		failure.Message += fmt.Sprintf("; check that %s is a user of the domain, that the key of %s was not deleted, and that this machine's clock is right", subject, account.Email)
	case failure.Reason == "invalid_grant":
		failure.Message += fmt.Sprintf("; check in the Google Cloud console that %s and its key still exist, and that this machine's clock is right", account.Email)
	}
}

func readableKey(data []byte) bool {
	block, _ := pem.Decode(data)
	if block == nil {
		return false
	}
	if _, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		return true
	}
	_, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	return err == nil
}
