package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
)

// setting is what scripts read from `calferry config show --json`.
type setting struct {
	Flag   string `json:"flag"`
	Env    string `json:"env"`
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
	From   string `json:"from"`
}

func settings(t *testing.T, env map[string]string, args ...string) map[string]setting {
	t.Helper()
	var list []setting
	runIn(t.Context(), env, append([]string{"config", "show", "--json"}, args...)...).ok(t).into(t, &list)
	byFlag := map[string]setting{}
	for _, s := range list {
		byFlag[s.Flag] = s
	}
	require.Len(t, byFlag, len(list))
	return byFlag
}

// secretSettings hold what must not be seen.
var secretSettings = []string{
	"account-key", "auth-token", "feed-bearer", "feed-key", "feed-password", "google-client-secret",
	"google-refresh-token", "google-token", "nats-password", "redis-password",
}

func TestEverySecretCanComeFromAFileAndIsNeverShown(t *testing.T) {
	t.Parallel()
	known := settings(t, nil)
	for _, flag := range secretSettings {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, "(empty)", known[flag].Value)
			name := known[flag].Env
			require.Equal(t, "CALFERRY_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_")), name)
			file := write(t, "secret", "SECRET-of-a-file\n")
			yaml := write(t, "calferry.yaml", known[flag].Key+"_file: "+file+"\n")
			inYAML := write(t, "inline.yaml", known[flag].Key+": SECRET-inline\n")
			for source, found := range map[string]setting{
				"env":  settings(t, map[string]string{name: "SECRET-of-the-environment"})[flag],
				"flag": settings(t, nil, "--"+flag, "SECRET-of-a-flag")[flag],
				"file": settings(t, nil, "--config", inYAML)[flag],
			} {
				require.Equal(t, "(set)", found.Value)
				require.Equal(t, source, found.Source)
			}
			for source, found := range map[string]setting{
				"env":  settings(t, map[string]string{name + "_FILE": file})[flag],
				"flag": settings(t, nil, "--"+flag+"-file", file)[flag],
				"file": settings(t, nil, "--config", yaml)[flag],
			} {
				require.Equal(t, "(set)", found.Value)
				require.Equal(t, source, found.Source)
			}
		})
	}
}

func TestConfigShowHidesWhatAddressesHold(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"CALFERRY_NATS_URL":  "nats://me:MARKED@one.example:4222,nats://me:SECRET@two.example:4222",
		"CALFERRY_REDIS_URL": "rediss://:MARKED@redis.example:6379/0",
		"CALFERRY_REDIS":     "redis://me:MARKED@redis.example:6379/0",
		"CALFERRY_FEED":      "https://school.example/MARKED/term.ics?key=SECRET",
	}
	for _, form := range []string{"--json=true", "--json=false"} {
		r := runIn(t.Context(), env, "config", "show", form).ok(t)
		require.NotContains(t, r.stdout+r.stderr, "MARKED")
		require.Empty(t, r.stderr)
	}
	known := settings(t, env)
	require.Contains(t, known["nats-url"].Value, "two.example:4222", "where it is may be seen")
	require.Contains(t, known["redis-url"].Value, "redis.example:6379")
	require.Equal(t, "(set)", known["feed"].Value)
	require.Equal(t, "(empty)", settings(t, nil)["feed"].Value)
}

func TestFlagsComeBeforeTheEnvironmentAndThatBeforeTheFile(t *testing.T) {
	t.Parallel()
	yaml := write(t, "calferry.yaml", "writer:\n  workers: 3\n")
	env := map[string]string{"CALFERRY_CONFIG": yaml}
	require.Equal(t, setting{"writer-workers", "CALFERRY_WRITER_WORKERS", "writer.workers", "3", "file", yaml + ":2"}, settings(t, env)["writer-workers"])
	env["CALFERRY_WRITER_WORKERS"] = "4"
	require.Equal(t, "4", settings(t, env)["writer-workers"].Value)
	require.Equal(t, "5", settings(t, env, "--writer-workers", "5")["writer-workers"].Value)
}

func TestSyncTakesItsTokenFromAFile(t *testing.T) {
	t.Parallel()
	g, feed := newGoogle(t, gcalsim.Config{}), write(t, "term.ics", calendarOf(2))
	token := write(t, "token", g.token+"\n")
	args := []string{"sync", feed, "--calendar", calendarID, "--google-endpoint", g.url, "--redis", "memory", "--json", "--data-dir"}
	runIn(t.Context(), map[string]string{"CALFERRY_GOOGLE_TOKEN_FILE": token}, append(args, newDir(t))...).ok(t)
	runIn(t.Context(), nil, append(args, newDir(t), "--google-token-file", token)...).ok(t)
	runIn(t.Context(), nil, append(args, newDir(t), "--config", write(t, "c.yaml", "google:\n  token_file: "+token+"\n"))...).ok(t)
}
