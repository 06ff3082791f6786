package streams

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// DefaultAckWait is how long a worker may stay silent before its turn goes to another one: the lease of
	// a lane lasts as long, and one heartbeat renews both.
	DefaultAckWait = 30 * time.Second

	reportsPerSubscription = 200
	reportsUnacknowledged  = 1000 // reports in the hands of the state service at once
	auditEntries           = 10_000

	// Every process keeps a few pull requests open.
	openPulls = 1 << 16

	// What the server assumes when the field is left out. All are spelled out, so that a definition can be
	// compared with what the server tells about it.
	unlimited       = -1
	duplicateWindow = 2 * time.Minute
	serverOpenPulls = 512
)

// asset is a stream with the consumers that belong to it.
type asset struct {
	name      string // as people call it: a stream's or a bucket's name
	kind      string // "stream" or "bucket"
	stream    jetstream.StreamConfig
	consumers []jetstream.ConsumerConfig
}

func definitions() []asset {
	return []asset{
		queue(StreamFetch, PrefixFetch, "One fetch turn per subscription"),
		queue(StreamChanges, PrefixChanges, "The latest ChangeSet of each subscription"),
		reports(),
		bucket(BucketLedger, "What Google is known to hold"),
		bucket(BucketSubscriptions, "Subscriptions"),
		bucket(BucketAccounts, "Google accounts"),
		bucket(BucketHealth, "Health of subscriptions and accounts"),
		bucket(BucketHolds, "Decisions about held deletes"),
		bucket(BucketAlerts, "Incidents, and who has heard of them"),
		bucket(BucketAccess, "What replicas share about who is signed in"),
		audit(),
	}
}

func define(name string) (asset, bool) {
	for _, a := range definitions() {
		if a.name == name {
			return a, true
		}
	}
	return asset{}, false
}

func stream(name, subject, description string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Subjects: []string{subject},
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardOld, Duplicates: duplicateWindow,
		MaxConsumers: unlimited, MaxMsgs: unlimited, MaxBytes: unlimited, MaxMsgSize: unlimited,
	}
}

// queue: one message per subject, and a new one replaces the old one in every state. No limit of age or size,
// because discard old at such a limit drops work.
func queue(name, prefix, description string) asset {
	s := stream(name, prefix+".>", description)
	s.Retention = jetstream.WorkQueuePolicy
	s.MaxMsgsPerSubject = 1
	return asset{name: name, kind: "stream", stream: s, consumers: []jetstream.ConsumerConfig{{
		Name: ConsumerWorkers, Durable: ConsumerWorkers, FilterSubject: prefix + ".>",
		DeliverPolicy: jetstream.DeliverAllPolicy, ReplayPolicy: jetstream.ReplayInstantPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: DefaultAckWait,
		MaxDeliver:    unlimited,
		MaxAckPending: unlimited, // a delayed message counts as unacknowledged
		MaxWaiting:    openPulls,
	}}}
}

func reports() asset {
	s := stream(StreamReports, PrefixReport+".*", "The newest reports of each subscription")
	s.Retention = jetstream.LimitsPolicy
	s.MaxMsgsPerSubject = reportsPerSubscription
	return asset{name: StreamReports, kind: "stream", stream: s, consumers: []jetstream.ConsumerConfig{{
		Name: ConsumerHealth, Durable: ConsumerHealth, FilterSubject: PrefixReport + ".*",
		DeliverPolicy: jetstream.DeliverAllPolicy, ReplayPolicy: jetstream.ReplayInstantPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: DefaultAckWait,
		MaxDeliver: unlimited, MaxAckPending: reportsUnacknowledged, MaxWaiting: serverOpenPulls,
	}}}
}

// audit: a log with a limit, read by sequence and followed by nobody.
func audit() asset {
	s := stream(StreamAudit, PrefixAudit+".*", "The newest actions that people took")
	s.Retention = jetstream.LimitsPolicy
	s.MaxMsgs, s.MaxMsgsPerSubject = auditEntries, unlimited
	return asset{name: StreamAudit, kind: "stream", stream: s}
}

// bucket is what jetstream.CreateKeyValue makes, with one change: AllowDirect is off. A direct read may be
// answered by a replica that lags behind, and a compare-and-set on a stale revision is what the ledger must
// never do. AllowMsgTTL lets a purge marker expire (jetstream.PurgeTTL).
func bucket(name, description string) asset {
	s := stream(BucketStream(name), "$KV."+name+".>", description)
	s.MaxMsgsPerSubject = 1
	s.Discard = jetstream.DiscardNew
	s.AllowRollup, s.DenyDelete, s.AllowMsgTTL = true, true, true
	s.AllowDirect = false
	return asset{name: name, kind: "bucket", stream: s}
}
