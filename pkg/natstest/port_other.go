//go:build !linux

package natstest

import (
	"net"
	"testing"
)

// freePort asks the kernel for a port, and frees it again for the server. Somebody else may get it before the server
// does, or while the server is down: only Linux lets a port be reserved for who listens later.
func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("natstest: find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
