//go:build deploy

package verify

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

var programs = []string{"calferry", "fetcher", "state", "writer"}

// step is one instruction of a Dockerfile.
type step struct{ verb, args string }

func dockerfile(text string) (stages [][]step) {
	text = regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		verb, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		if verb == "" {
			continue
		}
		if verb == "FROM" || len(stages) == 0 {
			stages = append(stages, nil)
		}
		stages[len(stages)-1] = append(stages[len(stages)-1], step{verb, args})
	}
	return stages
}

// wrongs is what keeps the last stage from being a program and certificates, and nothing else.
func wrongs(stages [][]step) (wrong []string) {
	last := stages[len(stages)-1]
	verbs := map[string]string{}
	for _, s := range last {
		verbs[s.verb] = s.args
		switch s.verb {
		case "FROM", "COPY", "USER", "ENTRYPOINT":
		default:
			wrong = append(wrong, "the image has a step "+s.verb)
		}
		if s.verb == "COPY" && !strings.HasPrefix(s.args, "--from=build ") {
			wrong = append(wrong, "the image takes in files that were not built: "+s.args)
		}
	}
	if verbs["FROM"] != "scratch" {
		wrong = append(wrong, "the image starts from "+verbs["FROM"]+", which has more than a program")
	}
	if verbs["USER"] != "65532:65532" {
		wrong = append(wrong, "the image runs as "+verbs["USER"])
	}
	if verbs["ENTRYPOINT"] != `["/program"]` {
		wrong = append(wrong, "the image starts "+verbs["ENTRYPOINT"])
	}
	return wrong
}

// buildStep is the command that makes the program.
func buildStep(stages [][]step) string {
	for _, s := range stages[len(stages)-2] {
		if s.verb == "RUN" && strings.Contains(s.args, "go build") {
			return s.args
		}
	}
	return ""
}

// built runs the Dockerfile's build command for all programs, once for all tests.
var built = sync.OnceValues(func() (map[string]string, error) {
	text, err := os.ReadFile("../images/Dockerfile")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(os.TempDir(), "calferry-verify-deploy")
	out := map[string]string{}
	for _, name := range programs {
		out[name] = filepath.Join(dir, name)
		script := strings.ReplaceAll(buildStep(dockerfile(string(text))), "/out/program", out[name])
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "SERVICE="+name)
		if log, err := cmd.CombinedOutput(); err != nil {
			return nil, &exec.Error{Name: script + "\n" + string(log), Err: err}
		}
	}
	return out, nil
})

func TestImagesHoldOneStaticProgram(t *testing.T) {
	text, err := os.ReadFile("../images/Dockerfile")
	require.NoError(t, err)
	require.Empty(t, wrongs(dockerfile(string(text))))
	require.Contains(t, string(text), "/etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt")
	require.Contains(t, buildStep(dockerfile(string(text))), "-trimpath")

	binaries, err := built()
	require.NoError(t, err)
	for name, path := range binaries {
		f, err := elf.Open(path)
		require.NoError(t, err)
		libraries, err := f.ImportedLibraries()
		require.NoError(t, err)
		require.Empty(t, libraries, "%s is linked to libraries that the image lacks", name)
		for _, p := range f.Progs {
			require.NotEqual(t, elf.PT_INTERP, p.Type, "%s asks for a loader that the image lacks", name)
		}
		require.NoError(t, f.Close())
		cmd := exec.Command("go", "list", "-deps", "./services/"+name+"/cmd/"+name)
		cmd.Dir = root
		deps, err := cmd.Output()
		require.NoError(t, err)
		require.Contains(t, string(deps), "time/tzdata\n", "%s has no time zones", name)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		abs, err := filepath.Abs(root)
		require.NoError(t, err)
		require.NotContains(t, string(content), abs, "%s tells where it was built", name)
		t.Logf("%s: %d KiB", name, len(content)>>10)
	}
}

func TestBrokenImagesAreRefused(t *testing.T) {
	text, err := os.ReadFile("../images/Dockerfile")
	require.NoError(t, err)
	for old, c := range map[string][2]string{
		"FROM scratch":                {"FROM debian:12-slim", "more than a program"},
		"USER 65532:65532":            {"USER root", "runs as root"},
		"COPY --from=build /out/prog": {"COPY /bin/sh /bin/sh\nCOPY --from=build /out/prog", "not built"},
		"ENTRYPOINT":                  {"RUN apt-get update\nENTRYPOINT", "step RUN"},
	} {
		broken := strings.Replace(string(text), old, c[0], 1)
		require.Contains(t, strings.Join(wrongs(dockerfile(broken)), "\n"), c[1])
	}
}
