// Command calferry is the all-in-one binary and the command line.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // feeds name zones, and small images have no zone database

	"github.com/calferry/calferry/pkg/lifecycle"
	"github.com/calferry/calferry/services/calferry/internal/cli"
)

func main() {
	ctx, stop := lifecycle.Signals(context.Background())
	code := cli.Main(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
