// Command writer runs the writer service on its own.
package main

import (
	"os"
	_ "time/tzdata" // events name zones, and small images have no zone database

	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/pkg/redisconn"
	"github.com/calferry/calferry/services/writer"
)

func main() {
	redisconn.Quiet()
	p := &writer.Process{}
	os.Exit(daemon.Main("writer", os.Args[1:], os.Stderr, p, p.Open))
}
