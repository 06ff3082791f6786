//go:build deploy

package verify

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

func compose(ctx context.Context, text []byte) (*types.Project, error) {
	return loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir: "../compose", Environment: types.Mapping{},
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: text}},
	})
}

func TestComposeFileIsValid(t *testing.T) {
	text, err := os.ReadFile("../compose/compose.yaml")
	require.NoError(t, err)
	p, err := compose(t.Context(), text)
	require.NoError(t, err)
	for name, s := range p.Services {
		require.True(t, s.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		require.Regexp(t, `^calferry/|:[0-9]`, s.Image, name)
		for _, port := range s.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s is open to the network", name)
		}
	}
	require.True(t, p.Networks["inside"].Internal)

	// The program knows every flag, and starts as far as it can without the other container.
	binaries, err := built()
	require.NoError(t, err)
	help, err := exec.CommandContext(t.Context(), binaries["calferry"], "up", "--help").CombinedOutput()
	require.NoError(t, err)
	for _, arg := range p.Services["calferry"].Command[1:] {
		flag, _, _ := strings.Cut(arg, "=")
		require.Contains(t, string(help), flag+" ", flag)
	}
	require.Contains(t, string(help), "CALFERRY_AUTH_TOKEN")
	require.Equal(t, "/run/secrets/console-token", *p.Services["calferry"].Environment["CALFERRY_AUTH_TOKEN_FILE"])
}

func TestBrokenComposeFilesAreRefused(t *testing.T) {
	text, err := os.ReadFile("../compose/compose.yaml")
	require.NoError(t, err)
	for _, c := range [][2]string{
		{"read_only", "read_onli"},
		{"volumes: [\"data:/data\"]", "volumes: [\"date:/data\"]"},
		{"networks: [outside, inside]", "networks: [outside, outsight]"},
		{"depends_on: [valkey]", "depends_on: [redis]"},
		{"secrets: [console-token]", "secrets: [token]"},
	} {
		require.Contains(t, string(text), c[0])
		_, err := compose(t.Context(), bytes.Replace(text, []byte(c[0]), []byte(c[1]), 1))
		require.Error(t, err, c[1])
	}
}
