package streams

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// The oldest NATS that Calferry runs on. Older ones were not tested.
const (
	minMajor = 2
	minMinor = 12
)

// VersionError says that the NATS server is too old.
type VersionError struct{ Found string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("NATS server %s is too old: Calferry needs %d.%d or newer; upgrade nats-server and start again",
		e.Found, minMajor, minMinor)
}

// CheckServer returns a *VersionError if the server that nc is connected to is too old.
func CheckServer(nc *nats.Conn) error {
	v := nc.ConnectedServerVersion()
	if v == "" {
		return fmt.Errorf("streams: check the NATS version: %w", nats.ErrDisconnected)
	}
	return checkVersion(v)
}

func checkVersion(v string) error {
	var n [2]int
	for i, part := range strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3) {
		if i == len(n) {
			break
		}
		var err error
		if n[i], err = strconv.Atoi(part); err != nil {
			return &VersionError{Found: v}
		}
	}
	if n[0] < minMajor || n[0] == minMajor && n[1] < minMinor {
		return &VersionError{Found: v}
	}
	return nil
}
