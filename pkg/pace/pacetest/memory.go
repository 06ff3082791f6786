package pacetest

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	lua "github.com/yuin/gopher-lua"
)

// Memory runs Lua scripts in this process, without a server and on a clock that is set: what a
// simulation of hours needs. It knows the commands TIME, HMGET, HSET and EXPIRE only, and no key ever
// expires. It stands in for a client; any method but those of redis.Scripter panics.
type Memory struct {
	redis.UniversalClient

	mu     sync.Mutex
	now    time.Time
	hashes map[string]map[string]string
	state  *lua.LState
	loaded map[string]*lua.LFunction
	calls  int
}

// NewMemory returns an empty Memory. Close it after use.
func NewMemory() *Memory {
	m := &Memory{
		hashes: make(map[string]map[string]string),
		state:  lua.NewState(),
		loaded: make(map[string]*lua.LFunction),
	}
	module := m.state.NewTable()
	module.RawSetString("call", m.state.NewFunction(m.call))
	m.state.SetGlobal("redis", module)
	return m
}

// Close releases the interpreter.
func (m *Memory) Close() error {
	m.state.Close()
	return nil
}

// SetTime sets the clock that the scripts see.
func (m *Memory) SetTime(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// Forget empties the memory, as a Redis that lost its data.
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.hashes)
}

// Calls counts the scripts that ran.
func (m *Memory) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Eval loads and runs a script.
func (m *Memory) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	m.mu.Lock()
	defer m.mu.Unlock()
	cmd := redis.NewCmd(ctx)
	script, err := m.state.LoadString(source)
	if err != nil {
		cmd.SetErr(err)
		return cmd
	}
	sum := sha1.Sum([]byte(source))
	m.loaded[hex.EncodeToString(sum[:])] = script
	m.run(cmd, script, keys, args)
	return cmd
}

// EvalSha runs a script that was loaded.
func (m *Memory) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	m.mu.Lock()
	defer m.mu.Unlock()
	cmd := redis.NewCmd(ctx)
	script, ok := m.loaded[sha]
	if !ok {
		cmd.SetErr(noScript{})
		return cmd
	}
	m.run(cmd, script, keys, args)
	return cmd
}

type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT No matching script." }
func (noScript) RedisError()   {}

func (m *Memory) run(cmd *redis.Cmd, script *lua.LFunction, keys []string, args []any) {
	m.calls++
	list := func(n int, at func(int) string) *lua.LTable {
		table := m.state.CreateTable(n, 0)
		for i := range n {
			table.RawSetInt(i+1, lua.LString(at(i)))
		}
		return table
	}
	m.state.SetGlobal("KEYS", list(len(keys), func(i int) string { return keys[i] }))
	m.state.SetGlobal("ARGV", list(len(args), func(i int) string { return fmt.Sprint(args[i]) }))
	if err := m.state.CallByParam(lua.P{Fn: script, NRet: 1, Protect: true}); err != nil {
		cmd.SetErr(err)
		return
	}
	result, ok := m.state.Get(-1).(*lua.LTable)
	m.state.Pop(1)
	if !ok {
		cmd.SetErr(errors.New("the script returned no list"))
		return
	}
	values := make([]any, result.Len())
	for i := range values {
		values[i] = result.RawGetInt(i + 1).String()
	}
	cmd.SetVal(values)
}

// call is redis.call.
func (m *Memory) call(l *lua.LState) int {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = l.Get(i + 1).String()
	}
	reply := l.NewTable()
	switch name := strings.ToUpper(args[0]); name {
	case "TIME":
		micros := m.now.UnixMicro()
		reply.Append(lua.LString(strconv.FormatInt(micros/1e6, 10)))
		reply.Append(lua.LString(strconv.FormatInt(micros%1e6, 10)))
	case "HMGET":
		hash := m.hashes[args[1]]
		for _, field := range args[2:] {
			if value, ok := hash[field]; ok {
				reply.Append(lua.LString(value))
			} else {
				reply.Append(lua.LFalse)
			}
		}
	case "HSET":
		hash := m.hashes[args[1]]
		if hash == nil {
			hash = make(map[string]string)
			m.hashes[args[1]] = hash
		}
		for i := 2; i+1 < len(args); i += 2 {
			hash[args[i]] = args[i+1]
		}
	case "EXPIRE":
	default:
		l.RaiseError("command %s is not known", name)
	}
	l.Push(reply)
	return 1
}
