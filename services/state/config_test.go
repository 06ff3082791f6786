package state_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/services/state"
	"github.com/calferry/calferry/services/state/internal/access"
	"github.com/calferry/calferry/services/state/internal/alerts"
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
		"all addresses":         {state.Config{Listen: ":8080"}, ""},
		"another address":       {state.Config{Listen: "10.1.2.3:8080"}, ""},
		"nobody may sign in":    {state.Config{Access: access.Settings{TrustedProxies: []string{"10.0.0.0/8"}}}, "operators"},
		"no such network":       {state.Config{Access: access.Settings{TrustedProxies: []string{"proxy"}, Operators: []string{"*"}}}, "10.0.0.0/8"},
		"provider without home": {state.Config{Access: access.Settings{OIDCIssuer: "https://id.example", OIDCClientID: "x", Operators: []string{"*"}}}, "external-url"},
		"unsigned webhook":      {state.Config{Alerts: alerts.Settings{Webhook: "https://x.example/hunter2"}}, "at least 16"},
		"unknown service":       {state.Config{Alerts: alerts.Settings{Services: "pigeon://hunter2@loft"}}, "address 1"},
		"another with a token":  {state.Config{Listen: "10.1.2.3:8080", Access: access.Settings{AuthToken: token}}, ""},
		"short token":           {state.Config{Access: access.Settings{AuthToken: "hunter2"}}, "at least 16"},
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
