package embedredis

import "syscall"

func dieWithParent() *syscall.SysProcAttr {
	// Its own group: a Ctrl-C on the terminal reaches Calferry alone, which then stops it in order.
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
