//go:build deploy

package verify

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sigsyaml "sigs.k8s.io/yaml"
)

// expression is one query of an alert, a panel or a scaler.
type expression struct{ where, text string }

type rule struct{ Record, Alert, Expr string }

type ruleFile struct {
	Spec struct {
		Groups []struct{ Rules []rule }
	}
}

func alertRules(t *testing.T) (rules []rule) {
	t.Helper()
	var f ruleFile
	require.NoError(t, sigsyaml.Unmarshal(must(os.ReadFile("../monitoring/rules.yaml")), &f))
	for _, g := range f.Spec.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

func expressions(t *testing.T) (all []expression) {
	t.Helper()
	for _, r := range alertRules(t) {
		all = append(all, expression{"rule " + r.Record + r.Alert, r.Expr})
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(must(os.ReadFile("../monitoring/calferry.json")), &board))
	for _, p := range board.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			all = append(all, expression{"panel " + p.Title, target.Expr})
		}
	}
	for _, o := range must(decode(must(render(prod)))) {
		if s, ok := o.(*scaledObject); ok {
			all = append(all, expression{"ScaledObject", s.Spec.Triggers[0].Metadata["query"]})
		}
	}
	return all
}

// metricNames are those that an expression reads.
func metricNames(expr string) (names []string) {
	expr = regexp.MustCompile(`\{[^}]*\}|\[[^]]*\]|"[^"]*"`).ReplaceAllString(expr, " ")
	expr = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`).ReplaceAllString(expr, " ")
	for _, m := range regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`).FindAllString(expr, -1) {
		name := strings.TrimSpace(m)
		switch {
		case strings.HasSuffix(name, "("): // a function
		case regexp.MustCompile(`^(and|or|unless|offset|bool|[smhdwy])$`).MatchString(name):
		default:
			names = append(names, name)
		}
	}
	return names
}

// unknown are names of expressions that nobody tells.
func unknown(all []expression, told map[string]bool) (missing []string) {
	for _, e := range all {
		for _, name := range metricNames(e.text) {
			if !told[name] {
				missing = append(missing, e.where+" reads "+name)
			}
		}
	}
	return missing
}

// requireNamesAreTold: every metric of alerts, dashboard and scaler is told by a service that ran, recorded by a rule,
// or one of the NATS exporter's.
func requireNamesAreTold(t *testing.T, told map[string]bool) {
	t.Helper()
	for _, r := range alertRules(t) {
		told[r.Record] = true
	}
	for line := range strings.Lines(string(must(os.ReadFile("testdata/nats-exporter-metrics.txt")))) {
		told[strings.TrimSpace(line)] = true
	}
	all := expressions(t)
	require.Empty(t, unknown(all, told))
	require.NotEmpty(t, unknown(append(all, expression{"broken", "sum(rate(calferry_writer_wirtes_total[5m]))"}), told))
	for _, name := range regexp.MustCompile(`calferry_[a-z_]+`).FindAllString(string(must(os.ReadFile("../../docs/guides/kubernetes.md"))), -1) {
		require.True(t, told[name] || told[name+"_bucket"], "the guide names %s", name)
	}
}

func TestMetricNamesAreFound(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a_total", "b", "c_bucket", "d:e"}, metricNames(
		`sum by (x, y) (rate(a_total{q="FETCH"}[5m])) > 3 * max(b offset 2h) and histogram_quantile(0.9, sum by (le) (c_bucket)) or d:e == 0`))
}

func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	var file struct{ Spec json.RawMessage }
	require.NoError(t, sigsyaml.Unmarshal(must(os.ReadFile("../monitoring/rules.yaml")), &file))
	tests := must(os.ReadFile("../monitoring/rules_test.yaml"))
	write("rules.yaml", file.Spec)
	write("rules_test.yaml", tests)
	out, err := promtool(t, dir, "check", "rules", "rules.yaml")
	require.NoError(t, err, out)
	out, err = promtool(t, dir, "test", "rules", "rules_test.yaml")
	require.NoError(t, err, out)

	// Every alert has a test in which it fires and one in which it does not.
	for _, r := range alertRules(t) {
		if r.Alert != "" {
			require.Regexp(t, `alertname: `+r.Alert+`\}`, string(tests), "a test in which %s is silent", r.Alert)
			require.Regexp(t, `alertname: `+r.Alert+`\n\s+exp_alerts:`, string(tests), "a test in which %s fires", r.Alert)
		}
	}

	// The queries of dashboard and scaler are PromQL.
	var panels strings.Builder
	panels.WriteString("groups:\n- name: panels\n  rules:\n")
	for _, e := range expressions(t) {
		panels.WriteString("  - record: a:panel\n    expr: '" + strings.ReplaceAll(e.text, "'", "''") + "'\n    labels: {panel: '" + e.where + "'}\n")
	}
	write("panels.yaml", []byte(panels.String()))
	out, err = promtool(t, dir, "check", "rules", "panels.yaml")
	require.NoError(t, err, out)

	// Broken ones are refused.
	write("rules.yaml", []byte(strings.Replace(string(file.Spec), "6 * 3600", "7 * 3600", 1)))
	out, err = promtool(t, dir, "test", "rules", "rules_test.yaml")
	require.Error(t, err)
	require.Contains(t, out, "CalferryOldestDeferred")
	write("panels.yaml", []byte(strings.Replace(panels.String(), "max(", "max((", 1)))
	_, err = promtool(t, dir, "check", "rules", "panels.yaml")
	require.Error(t, err)
}
