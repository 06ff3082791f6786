package pace

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is a program that Redis runs on the first keys of a lane.
type script struct {
	name string
	keys int
	*redis.Script
}

type scripts struct {
	acquire, reserve, report, renew, release, inspect script
}

// sources returns the programs for a controller by name: a common opening, then the script itself.
func sources(controller Controller) (map[string]string, error) {
	texts := make(map[string]string)
	for _, name := range []string{"acquire", "reserve", "report", "renew", "release", "inspect"} {
		parts := []string{"lane", "control_" + string(controller), name}
		if name == "release" || name == "inspect" {
			parts = slices.Insert(parts, 2, "state")
		}
		var program strings.Builder
		for _, part := range parts {
			text, err := luaFiles.ReadFile("lua/" + part + ".lua")
			if err != nil {
				return nil, fmt.Errorf("load the pace scripts: %w", err)
			}
			program.WriteString(string(text) + "\n")
		}
		texts[name] = program.String()
	}
	return texts, nil
}

func newScripts(texts map[string]string) *scripts {
	load := func(name string, keys int) script {
		return script{name: name, keys: keys, Script: redis.NewScript(texts[name])}
	}
	return &scripts{
		acquire: load("acquire", 1),
		reserve: load("reserve", 4),
		report:  load("report", 4),
		renew:   load("renew", 1),
		release: load("release", 4),
		inspect: load("inspect", 4),
	}
}

// reply reads the answer of a script: a list of strings.
type reply struct {
	values []string
	err    error
}

func readReply(values []any) *reply {
	r := &reply{values: make([]string, len(values))}
	for i, value := range values {
		text, ok := value.(string)
		if !ok {
			r.err = fmt.Errorf("the script answered %T at place %d; a string was expected", value, i)
		}
		r.values[i] = text
	}
	return r
}

func (r *reply) text(i int) string {
	if i >= len(r.values) {
		r.err = fmt.Errorf("the script answered %d values; more than %d were expected", len(r.values), i)
		return ""
	}
	return r.values[i]
}

func (r *reply) number(i int) int64 {
	text := r.text(i)
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.err = fmt.Errorf("read place %d of the script's answer: %w", i, err)
	}
	return n
}

func (r *reply) duration(i int) time.Duration { return time.Duration(r.number(i)) * time.Microsecond }

func (r *reply) pace(i int) float64 { return float64(r.number(i)) / 1e6 }

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

func micros(d time.Duration) int64 { return d.Microseconds() }

func millionths(pace float64) int64 { return int64(pace * 1e6) }

// run calls a script, by its hash first, and returns its answer.
func (p *Pacer) run(ctx context.Context, s script, lane Lane, args ...any) (*reply, error) {
	call, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	began := time.Now()
	values, err := s.Run(call, p.client, lane.keys()[:s.keys], args...).Slice()
	p.metrics.call(s.name, time.Since(began), err)
	if err != nil {
		return nil, unavailable(ctx, "pace "+s.name, err)
	}
	return readReply(values), nil
}
