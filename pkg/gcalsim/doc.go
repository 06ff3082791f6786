// Package gcalsim is a Google Calendar API v3 that runs in memory, so that everything Calferry promises about Google can be
// tested, and shown, without Google.
//
// A [Sim] is an http.Handler. It serves the API under /calendar/v3/, the OAuth token endpoint under /token, a page for people
// under / and a control API under /control/. It promises four things:
//
//   - It answers as Google does: the same envelopes, reasons and messages, ids that are never released, etags that refuse stale
//     writes, series with instances and exceptions. Where nobody knows what Google does, [Behaviour] has a switch.
//   - It limits as Google does, and as Google might: per calendar, per user, per project and per account, see [Limit] and [Limits].
//   - It fails when told to: [Sim.Fail] scripts faults before and after the write is kept, [Sim.Hold] stops a request in front of
//     the store and lets it go whenever the test wants, even after the client hung up.
//   - It remembers: [Sim.Log] has every request with its outcome, so pace, order and waste can be asserted.
//
// A request that arrived is carried out even when its client is gone. All methods are safe for concurrent use.
package gcalsim
