package bench_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"zino/pkg/config"
	"zino/pkg/hook"
	"zino/pkg/rpc"
	"zino/proto"
)

var hookedCall = hook.Input{SessionID: "s", Version: "1", Tool: "bash", ToolInput: proto.Raw(`{"command":"go test ./..."}`)}

// benchNoHook looks for the hooks of a call among 50, of which none matches.
func benchNoHook(b *bench) ([]line, error) {
	var list []proto.Hook
	for i := range 50 {
		list = append(list, proto.Hook{Event: proto.HookPreTool, Matcher: fmt.Sprintf("mcp__server%d__.*|Edit", i), Command: fmt.Sprint("guard", i)})
	}
	set, problems := hook.Compile(list)
	if problems != nil {
		return nil, errors.New(problems[0])
	}
	none := timed(b.scale(50), 100, func() { set.Run(context.Background(), nil, hook.Place{}, proto.HookPreTool, hookedCall) })
	return []line{{name: "a call that none of 50 hooks matches", measured: none, goals: []goal{atMost(20e3)}}}, nil
}

// benchHook runs a hook of a call by exc, at the level off.
func benchHook(b *bench) ([]line, error) {
	c, err := b.constellation(true, func(*config.Config) {}, nil, "exc")
	if err != nil {
		return nil, err
	}
	defer c.stop()
	exc := &rpc.Client{Service: "exc", Path: c.processes["exc"].path}
	defer exc.Close()
	set, _ := hook.Compile([]proto.Hook{{Event: proto.HookPreTool, Command: "exit 0", TimeoutMS: hook.TimeoutDefault}})
	var times []float64
	for range b.scale(100) {
		start := time.Now()
		if res := set.Run(context.Background(), exc, hook.Place{}, proto.HookPreTool, hookedCall); len(res.Notices) > 0 {
			return nil, errors.New(res.Notices[0])
		}
		times = append(times, float64(time.Since(start)))
	}
	slices.Sort(times)
	return []line{{name: "a hook at level off", measured: times[len(times)/2], goals: []goal{atMost(10e6)}, note: "sh -c 'exit 0', p50"}}, nil
}
