package api

import (
	"maps"
	"slices"

	"connectrpc.com/connect"
)

// Code is the stable name of an error, for programs. docs/api.md lists them; a name never changes its meaning.
type Code string

// Codes of requests that cannot be followed as they are.
const (
	CodeInvalidArgument  Code = "invalid_argument"
	CodeInvalidPageToken Code = "invalid_page_token"
	CodeInvalidFeed      Code = "invalid_feed"
	CodeInvalidOption    Code = "invalid_option"
	CodeInvalidID        Code = "invalid_id"
	CodeInvalidDocument  Code = "invalid_document"
	CodeCredential       Code = "invalid_credential"
	CodeUnauthenticated  Code = "unauthenticated"
	CodeViewer           Code = "viewer_may_only_read"
)

// Codes of requests that do not fit what is there.
const (
	CodeNotFound     Code = "not_found"
	CodePrecondition Code = "failed_precondition"
	CodePaused       Code = "subscription_paused"
	CodeRemoving     Code = "subscription_removing"
	CodeCountDiffers Code = "count_differs"
	CodeNotHeld      Code = "not_held"
	CodeOtherUser    Code = "other_google_user"
	CodeAccountInUse Code = "account_in_use"
	CodeMissingKey   Code = "missing_key"
	CodeNewer        Code = "newer_version"
	CodeConflict     Code = "conflict"
	CodeNoReceivers  Code = "no_alert_receivers"
)

// Codes of feeds that cannot be read.
const (
	CodeFeedUnreachable Code = "feed_unreachable"
	CodeFeedAuth        Code = "feed_auth"
	CodeFeedGone        Code = "feed_gone"
	CodeFeedInvalid     Code = "feed_invalid"
	CodeFeedRefused     Code = "feed_refused"
	CodeFeedBusy        Code = "feed_busy"
)

// Codes of what Google answers.
const (
	CodeGoogleThrottled   Code = "google_throttled"
	CodeGoogleUnavailable Code = "google_unavailable"
	CodeGoogleOperator    Code = "google_misconfigured"
	CodeReconnect         Code = "reconnect_needed"
	CodeCalendarNotFound  Code = "calendar_not_found"
	CodeCalendarReadOnly  Code = "calendar_read_only"
)

// Codes of the service's own troubles.
const (
	CodeCanceled    Code = "canceled"
	CodeDeadline    Code = "deadline_exceeded"
	CodeUnavailable Code = "unavailable"
	CodeInternal    Code = "internal"
)

// meaning is what goes with a code.
type meaning struct {
	status connect.Code
	hint   string
}

// meanings is the one table of errors: each code's status in the protocol, and what a person can do.
//
//nolint:gochecknoglobals // a table that nothing changes
var meanings = map[Code]meaning{
	CodeInvalidArgument:  {connect.CodeInvalidArgument, "change what the message names"},
	CodeInvalidPageToken: {connect.CodeInvalidArgument, "leave page_token empty to begin, or give one that the same list returned"},
	CodeInvalidFeed:      {connect.CodeInvalidArgument, "copy the feed's address from where the calendar is shared"},
	CodeInvalidOption:    {connect.CodeInvalidArgument, "change the option that the message names"},
	CodeInvalidID:        {connect.CodeInvalidArgument, "copy the id from the list"},
	CodeInvalidDocument:  {connect.CodeInvalidArgument, "correct the document where the message says"},
	CodeCredential:       {connect.CodeInvalidArgument, "give the whole credential"},
	CodeUnauthenticated:  {connect.CodeUnauthenticated, "sign in, or send the auth token as a bearer token"},
	CodeViewer:           {connect.CodePermissionDenied, "ask an operator, or sign in as one"},

	CodeNotFound:     {connect.CodeNotFound, "look at the list for the id"},
	CodePrecondition: {connect.CodeFailedPrecondition, "do first what the message says"},
	CodePaused:       {connect.CodeFailedPrecondition, "resume the subscription first"},
	CodeRemoving:     {connect.CodeFailedPrecondition, "create the subscription anew once it is gone"},
	CodeCountDiffers: {connect.CodeFailedPrecondition, "count again with dry_run, and confirm the new number"},
	CodeNotHeld:      {connect.CodeFailedPrecondition, "list the held events again"},
	CodeOtherUser:    {connect.CodeFailedPrecondition, "sign in to Google as the user whom the message names, or connect a new account"},
	CodeAccountInUse: {connect.CodeFailedPrecondition, "remove the account's subscriptions first"},
	CodeMissingKey:   {connect.CodeFailedPrecondition, "start the state service with its key files"},
	CodeNewer:        {connect.CodeFailedPrecondition, "upgrade this replica"},
	CodeConflict:     {connect.CodeAborted, "try again"},
	CodeNoReceivers:  {connect.CodeFailedPrecondition, "configure a webhook or a notification service first"},

	CodeFeedUnreachable: {connect.CodeUnavailable, "check that the address opens in a browser, and try again later"},
	CodeFeedAuth:        {connect.CodeFailedPrecondition, "give the feed's user and password or token, or a new address"},
	CodeFeedGone:        {connect.CodeNotFound, "ask the feed's publisher for its new address"},
	CodeFeedInvalid:     {connect.CodeInvalidArgument, "give the address of the calendar itself, not of a page about it"},
	CodeFeedRefused:     {connect.CodePermissionDenied, "allow the network or the port in the settings, if that server is yours"},
	CodeFeedBusy:        {connect.CodeResourceExhausted, "try again in a few seconds"},

	CodeGoogleThrottled:   {connect.CodeResourceExhausted, "wait a minute and try again; nothing is lost"},
	CodeGoogleUnavailable: {connect.CodeUnavailable, "try again later"},
	CodeGoogleOperator:    {connect.CodeFailedPrecondition, "correct the Google Cloud project or OAuth client as the message says"},
	CodeReconnect:         {connect.CodeFailedPrecondition, "connect the account again"},
	CodeCalendarNotFound:  {connect.CodeNotFound, "check the calendar's id, or share it with the account"},
	CodeCalendarReadOnly:  {connect.CodePermissionDenied, "give the account the right to make changes to events"},

	CodeCanceled:    {connect.CodeCanceled, "ask again if the answer is still wanted"},
	CodeDeadline:    {connect.CodeDeadlineExceeded, "try again; NATS or the feed may be slow"},
	CodeUnavailable: {connect.CodeUnavailable, "try again; NATS may be down or restarting"},
	CodeInternal:    {connect.CodeInternal, "look at the log of the state service"},
}

// Codes lists every code that an error can carry, in alphabetic order.
func Codes() []Code { return slices.Sorted(maps.Keys(meanings)) }
