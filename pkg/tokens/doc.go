// Package tokens hands out access tokens to those who may not see what they are made of.
//
// The Broker, inside the state service, turns credentials into access tokens and answers requests over
// NATS. A Client, inside a writer, asks it and remembers the answer until a minute before the token
// expires. Both are a gcal.Tokens. Of any number of callers that need the same token at once, one asks,
// on both sides. Refresh tokens never leave the Broker.
//
// All failures are a *gcal.Error of class AuthRevoked, Operator or Transient.
package tokens
