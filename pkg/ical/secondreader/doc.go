// Package secondreader tells what another program would make of a feed.
//
// It reads a feed with gocal, event by event, and lists what gocal refuses, loses, or puts at another time
// than Calferry does: hints for people who wonder why a calendar looks different elsewhere, or who
// publish the feed themselves. Nothing that is written to a calendar depends on it.
//
// gocal is kept at arm's length. Each event is written anew first (whole lines, names in upper case,
// parameters without quotes), because gocal panics on a stray quote and stops at a long line. Recurrence
// rules are hidden from it: some of them make it run for ever. It runs in a goroutine of its own, panics
// become findings, and a deadline ends the waiting.
package secondreader
