package streams

import "github.com/nats-io/nats.go"

const (
	maxChangeSet     = 900 << 10 // below the 1 MiB that NATS servers take by default
	changeSetMargin  = 64 << 10  // subject, headers, and what a later version adds to the envelope
	minimalChangeSet = 16 << 10  // one large event still fits
)

// MaxChangeSet is the largest body of a CHANGES message, in bytes: 900 KiB, or less where the server's
// max_payload asks for it. nc must be connected, or have been.
func MaxChangeSet(nc *nats.Conn) int {
	return max(minimalChangeSet, min(maxChangeSet, int(nc.MaxPayload())-changeSetMargin))
}
