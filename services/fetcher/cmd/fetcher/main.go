// Command fetcher runs the fetcher service on its own.
package main

import (
	"os"
	_ "time/tzdata" // feeds name zones, and small images have no zone database

	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/services/fetcher"
)

func main() {
	p := &fetcher.Process{}
	os.Exit(daemon.Main("fetcher", os.Args[1:], os.Stderr, p, p.Open))
}
