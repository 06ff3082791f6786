// Package streams is the one owner of everything Calferry keeps in NATS: the names, the subjects, and the
// definitions of streams, consumers and key-value buckets.
//
// Only `calferry provision` and `calferry up` call Provision, which creates or updates all of them and reads
// them back. Services call Verify at their start: it changes nothing, and names the stream and the field that
// differs. Nothing else in Calferry creates, updates or deletes a stream, a consumer or a bucket.
//
// # Connections
//
// NATS answers a request that the user may not make with silence; the refusal arrives on the connection's
// asynchronous error handler. So whoever opens a connection must set nats.ErrorHandler and log what it gets,
// or a missing permission looks like a slow server. Verify and workqueue.Queue add the connection's last
// refusal to their errors, which helps only while it is the last one.
package streams

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Streams.
const (
	StreamFetch   = "FETCH"   // one message per subscription: its next fetch
	StreamChanges = "CHANGES" // one message per subscription: its latest ChangeSet
	StreamReports = "REPORTS" // the newest reports of each subscription
	StreamAudit   = "AUDIT"   // the newest actions that people took
)

// Durable consumers: ConsumerWorkers on the two work queues, ConsumerHealth on the reports.
const (
	ConsumerWorkers = "workers"
	ConsumerHealth  = "health"
)

// Key-value buckets.
const (
	BucketLedger        = "ledger"
	BucketSubscriptions = "subscriptions"
	BucketAccounts      = "accounts"
	BucketHealth        = "health"
	BucketHolds         = "holds"
	BucketAlerts        = "alerts"
	BucketAccess        = "access"
)

// Prefixes of subjects, without the dot.
const (
	PrefixFetch   = "fetch"
	PrefixChanges = "changes"
	PrefixReport  = "report"
	PrefixAudit   = "audit"
)

// The token broker: the state service answers requests on TokenSubject in the queue group TokenGroup.
const (
	TokenSubject = "calferry.tokens"
	TokenGroup   = "state"
)

const tokenBytes = 20 // 160 bits of hash: no two calendars of one installation collide

// Token turns any string into one safe subject token of 32 characters: calendar ids hold `@`, `.` and `#`.
func Token(s string) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:tokenBytes]))
}

// LaneToken names a lane: all writes to one calendar of one Google Cloud project.
func LaneToken(project, calendarID string) string { return Token(project + "\x00" + calendarID) }

// FetchKey is the key of a subscription's turn in the FETCH queue. A subscription id is a subject token by
// its making, and is used as it is, so that the key tells the subscription.
func FetchKey(subscription string) string { return subscription }

// ChangesKey is the key of a subscription's ChangeSet in the CHANGES queue.
func ChangesKey(lane, subscription string) string { return lane + "." + subscription }

// ParseChangesKey takes a key of the CHANGES queue apart.
func ParseChangesKey(key string) (lane, subscription string, ok bool) {
	lane, subscription, ok = strings.Cut(key, ".")
	return lane, subscription, ok && lane != "" && subscription != "" && !strings.Contains(subscription, ".")
}

// ReportSubject is where reports about a subscription go.
func ReportSubject(subscription string) string { return PrefixReport + "." + subscription }

// BucketStream is the stream beneath a bucket.
func BucketStream(bucket string) string { return "KV_" + bucket }
