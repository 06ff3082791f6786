// Package event is what Calferry wants of one Google Calendar event, and how two wishes are compared.
//
// It promises that equal wishes have equal hashes in every process and version that shares a mapping:
// a Body has one canonical form, and its hashes cover that form and nothing else. The package knows
// neither feeds nor Google; pkg/plan makes Desired values and pkg/gcal sends their bodies.
//
// All values are plain data: safe to read from several goroutines, not to change from several.
package event
