// Package leaktest runs the tests of a package and fails when goroutines outlive them for good. Nothing but tests may
// import this package.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a stopped goroutine may take to end on a busy machine. goleak waits for half a second.
const patience = time.Minute

// Main is the whole of a TestMain. Options say which goroutines may stay.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(settled{m, options}, options...)
}

type settled struct {
	m       *testing.M
	options []goleak.Option
}

// Run runs the tests, and gives what they stopped the time to end.
func (s settled) Run() int {
	code := s.m.Run()
	if code != 0 {
		return code
	}
	for until := time.Now().Add(patience); goleak.Find(s.options...) != nil && time.Now().Before(until); {
		continue // Find has waited
	}
	return code
}
