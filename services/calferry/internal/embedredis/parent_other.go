//go:build !linux

package embedredis

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
