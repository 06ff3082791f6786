// Command state runs the state service on its own.
package main

import (
	"os"
	_ "time/tzdata" // subscriptions name zones, and small images have no zone database

	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/services/state"
)

func main() {
	p := &state.Process{}
	os.Exit(daemon.Main("state", os.Args[1:], os.Stderr, p, p.Open))
}
