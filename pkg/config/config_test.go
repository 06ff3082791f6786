package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/config"
)

type shared struct {
	Level string `flag:"log-level" default:"info" help:"level"`
}

type sample struct {
	Shared  shared
	Workers int           `flag:"fetcher-workers" file:"fetcher.workers" default:"16" help:"feeds at once"`
	Wait    time.Duration `flag:"fetcher-wait" file:"fetcher.wait" default:"30s" help:"wait"`
	Hosts   []string      `flag:"fetcher-allow" file:"fetcher.allow" help:"hosts"`
	Pace    float64       `flag:"pace" default:"4" help:"writes per second"`
	On      bool          `flag:"on" help:"switch"`
	Token   config.Secret `flag:"google-token" file:"google.token" help:"token"`
}

func load(t *testing.T, yaml string, env map[string]string, args ...string) (*sample, *config.Binding, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	cfg := &sample{}
	b, err := config.Bind(fs, cfg)
	require.NoError(t, err)
	b.IgnoreSections("writer")
	require.NoError(t, fs.Parse(args))
	file := ""
	if yaml != "" {
		file = filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	}
	return cfg, b, b.Load(file, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, _, err := load(t, "", nil)
	require.NoError(t, err)
	require.Equal(t, 16, cfg.Workers)
	require.Equal(t, 30*time.Second, cfg.Wait)
	require.InDelta(t, 4.0, cfg.Pace, 0)
	require.Equal(t, "info", cfg.Shared.Level)
}

func TestPrecedenceIsFlagEnvFileDefault(t *testing.T) {
	t.Parallel()
	yaml := "fetcher:\n  workers: 2\n  wait: 1m\n  allow: [a.example, b.example]\nwriter:\n  anything: 1\non: true\n"
	env := map[string]string{"CALFERRY_FETCHER_WORKERS": "3", "CALFERRY_PACE": "2.5"}
	cfg, b, err := load(t, yaml, env, "--fetcher-workers=4")
	require.NoError(t, err)
	require.Equal(t, 4, cfg.Workers)
	require.Equal(t, time.Minute, cfg.Wait)
	require.Equal(t, []string{"a.example", "b.example"}, cfg.Hosts)
	require.InDelta(t, 2.5, cfg.Pace, 0)
	require.True(t, cfg.On)
	sources := map[string]config.Source{}
	for _, s := range b.Settings() {
		sources[s.Flag] = s.Source
	}
	require.Equal(t, config.FromFlag, sources["fetcher-workers"])
	require.Equal(t, config.FromEnv, sources["pace"])
	require.Equal(t, config.FromFile, sources["fetcher-wait"])
	require.Equal(t, config.FromDefault, sources["log-level"])
}

func TestSecretsComeFromFilesAndStayHidden(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("s3cret\n"), 0o600))
	for name, args := range map[string][]string{"flag": {"--google-token-file", path}, "env": nil, "file": nil} {
		env, yaml := map[string]string{}, ""
		switch name {
		case "env":
			env["CALFERRY_GOOGLE_TOKEN_FILE"] = path
		case "file":
			yaml = "google:\n  token_file: " + path + "\n"
		}
		cfg, b, err := load(t, yaml, env, args...)
		require.NoError(t, err, name)
		require.Equal(t, "s3cret", cfg.Token.Reveal(), name)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", cfg.Token, cfg, b.Settings()), "s3cret", name)
	}
}

func TestUnknownKeysAreRefusedWithTheirLine(t *testing.T) {
	t.Parallel()
	_, _, err := load(t, "on: true\nfetcher:\n  workres: 2\n", nil)
	require.ErrorContains(t, err, `c.yaml:3: unknown key "fetcher.workres"; did you mean "fetcher.workers"?`)
	_, _, err = load(t, "zzz: 1\n", nil)
	require.ErrorContains(t, err, `c.yaml:1: unknown key "zzz"`)
}

func TestBadValuesSayWhatIsWanted(t *testing.T) {
	t.Parallel()
	_, _, err := load(t, "", map[string]string{"CALFERRY_FETCHER_WAIT": "soon"})
	require.ErrorContains(t, err, `CALFERRY_FETCHER_WAIT: "soon": wants a duration`)
	_, _, err = load(t, "fetcher:\n  workers: many\n", nil)
	require.ErrorContains(t, err, "c.yaml:2")
	_, _, err = load(t, "- a\n", nil)
	require.ErrorContains(t, err, "wants keys and values")
}

func TestOneSettingFillsEveryStructThatHasIt(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	a, b := &shared{}, &shared{}
	bound, err := config.Bind(fs, a, b)
	require.NoError(t, err)
	require.NoError(t, fs.Parse([]string{"--log-level=warn"}))
	require.NoError(t, bound.Load("", func(string) (string, bool) { return "", false }))
	require.Equal(t, "warn", a.Level)
	require.Equal(t, "warn", b.Level)
	require.Len(t, bound.Settings(), 1)

	type other struct {
		Level string `flag:"log-level" default:"debug"`
	}
	_, err = config.Bind(pflag.NewFlagSet("t", pflag.ContinueOnError), &shared{}, &other{})
	require.ErrorContains(t, err, "means two things")
}

func TestKeysOfOtherCommandsAreAccepted(t *testing.T) {
	t.Parallel()
	all, err := config.Bind(pflag.NewFlagSet("all", pflag.ContinueOnError), &sample{})
	require.NoError(t, err)
	fs := pflag.NewFlagSet("one", pflag.ContinueOnError)
	one, err := config.Bind(fs, &shared{})
	require.NoError(t, err)
	one.Accept(all)
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("fetcher:\n  workers: 3\n  wokrers: 3\n"), 0o600))
	err = one.Load(file, func(string) (string, bool) { return "", false })
	require.ErrorContains(t, err, `c.yaml:3: unknown key "fetcher.wokrers"`)
	require.NotContains(t, err.Error(), ":2:")
}
