package natstest

import (
	"syscall"
	"testing"
)

// freePort reserves a port of 127.0.0.1 until the test ends. The kernel gives it to nobody else, neither to who
// listens on any port nor to a connection that goes out, while no server listens on it: before its start, and while
// it is down. A socket that is bound and does not listen does that; a server may listen beside it, as both allow
// their address to be used again.
func freePort(tb testing.TB) int {
	tb.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatalf("natstest: reserve a port: %v", err)
	}
	tb.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		tb.Fatalf("natstest: reserve a port: %v", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatalf("natstest: reserve a port: %v", err)
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		tb.Fatalf("natstest: reserve a port: %v", err)
	}
	return address.(*syscall.SockaddrInet4).Port
}
