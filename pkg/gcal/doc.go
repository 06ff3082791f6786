// Package gcal speaks to Google Calendar, through Google's own client, for one purpose: events that
// mirror a feed.
//
// It promises three things. Every failure is one of a few classes that say what to do (see Class), and a
// throttle is never anything but a throttle. A failed write says whether it may have happened all the
// same (Error.Ambiguous). A Patch carries Calferry's own fields and nothing of the user's.
//
// It does not pace, and it repeats nothing by itself, except once after a refused access token. Retry is
// there for callers who want more.
package gcal
