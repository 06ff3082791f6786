// Package ical reads iCalendar bytes (RFC 5545) as public services really send them.
//
// It promises three things. No byte sequence makes it fail or panic: what cannot be read is counted and
// passed over, and errors are those of the underlying reader alone. Memory is bounded by the largest
// component, not by the feed: a Reader hands out one component at a time. And nothing is guessed in
// silence: a body that ends too early, a component that was never closed, a zone that nobody knows are
// all reported.
//
// It reads UTF-8 with or without byte order mark, UTF-16, and Windows-1252 where bytes are not UTF-8;
// lines that end in CRLF, LF or CR; folds by space or tab. What the components mean is the business of
// pkg/plan.
package ical
