package state_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/services/state"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	const token = config.Secret("0123456789abcdef")
	for name, test := range map[string]struct {
		cfg  state.Config
		want string // part of the error; empty for none
	}{
		"defaults":              {state.Config{}, ""},
		"loopback by name":      {state.Config{Listen: "localhost:0"}, ""},
		"all addresses":         {state.Config{Listen: ":8080"}, "auth token"},
		"another address":       {state.Config{Listen: "10.1.2.3:8080"}, "auth token"},
		"served by the caller":  {state.Config{Listen: ":8080", HandlerOnly: true}, "auth token"},
		"another with a token":  {state.Config{Listen: "10.1.2.3:8080", AuthToken: token}, ""},
		"short token":           {state.Config{AuthToken: "hunter2"}, "at least 16"},
		"no port":               {state.Config{Listen: "127.0.0.1"}, "host and port"},
		"prefix":                {state.Config{PathPrefix: "/cal/"}, ""},
		"prefix without slash":  {state.Config{PathPrefix: "cal"}, "slash"},
		"prefix with a pattern": {state.Config{PathPrefix: "/{x}"}, "slash"},
	} {
		err := test.cfg.WithDefaults().Validate()
		if test.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, test.want, name)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
