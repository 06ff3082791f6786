package cli

import (
	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/services/calferry/internal/embednats"
	"github.com/calferry/calferry/services/calferry/internal/embedredis"
	"github.com/calferry/calferry/services/fetcher"
	"github.com/calferry/calferry/services/state"
	"github.com/calferry/calferry/services/writer"
)

// allSettings are those of every command, for `config show` and for telling a misspelt key in the
// configuration file from one that another command uses.
func allSettings() []any {
	return []any{
		&daemon.Settings{}, &fetcher.Process{}, &writer.Process{}, &state.Process{},
		&embednats.Config{}, &embedredis.Config{}, &dataSettings{}, &googleSettings{}, &syncSettings{}, &grantSettings{},
		&upSettings{}, &simulateSettings{}, &provisionSettings{}, &clientSettings{}, &feedSecrets{},
	}
}
