// Package plan decides what a subscription's events shall be, and what that changes.
//
// Desired maps a feed to events as Google shall hold them. Diff compares them with the ledger's view of
// what Google does hold, and lists the writes that lead from one to the other. Both are pure: the same
// feed, settings and view give the same result on every machine, and neither asks the network, the clock
// or a store for anything.
//
// What they promise: one bad event never costs another; nothing is deleted without proof; a feed that
// says the same thing again, in other words or order, changes nothing; every series that Google can
// take is one event with its rule, never a pile of copies.
package plan
