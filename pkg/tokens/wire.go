package tokens

import (
	"errors"

	"github.com/calferry/calferry/pkg/gcal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// ErrUnknownAccount is what a Source returns for an account that it does not have.
var ErrUnknownAccount = errors.New("no such account")

const unknownAccount = "unknown account"

// toWire puts a failure into a reply.
func toWire(err *gcal.Error) *calferryv1.TokenReply {
	reply := &calferryv1.TokenReply{Message: err.Message}
	switch {
	case err.Reason == unknownAccount:
		reply.Error = calferryv1.TokenError_TOKEN_ERROR_UNKNOWN_ACCOUNT
	case err.Class == gcal.AuthRevoked:
		reply.Error = calferryv1.TokenError_TOKEN_ERROR_REVOKED
	case err.Class == gcal.Operator:
		reply.Error = calferryv1.TokenError_TOKEN_ERROR_OPERATOR
	default:
		reply.Error = calferryv1.TokenError_TOKEN_ERROR_TRANSIENT
	}
	return reply
}

// fromWire returns the failure in a reply, or nil if it holds a token. An error that is not known here
// comes from a newer broker and is temporary: no connection is given up for it.
func fromWire(reply *calferryv1.TokenReply) error {
	switch reply.GetError() {
	case calferryv1.TokenError_TOKEN_ERROR_UNSPECIFIED:
		if reply.GetAccessToken() == "" {
			return transient("bad answer", "the state service answered without an access token")
		}
		return nil
	case calferryv1.TokenError_TOKEN_ERROR_REVOKED:
		return &gcal.Error{Class: gcal.AuthRevoked, Reason: "invalid_grant", Message: reply.GetMessage()}
	case calferryv1.TokenError_TOKEN_ERROR_UNKNOWN_ACCOUNT:
		return &gcal.Error{Class: gcal.AuthRevoked, Reason: unknownAccount, Message: reply.GetMessage()}
	case calferryv1.TokenError_TOKEN_ERROR_OPERATOR:
		return &gcal.Error{Class: gcal.Operator, Reason: "invalid_client", Message: reply.GetMessage()}
	default:
		return transient("token refused", reply.GetMessage())
	}
}
