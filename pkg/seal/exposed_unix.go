//go:build unix

package seal

import (
	"io/fs"
	"os"
	"syscall"
)

// exposed returns the permission bits that a key file must not have. A file of another owner (a mounted
// secret belongs to root) may be readable by a group, or this process could not read it at all; one's
// own file is for its owner alone. PostgreSQL draws the same line for its server key.
func exposed(info fs.FileInfo) fs.FileMode {
	const group, others fs.FileMode = 0o030, 0o007
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == 0 && os.Geteuid() != 0 {
		return group | others
	}
	return 0o077
}
