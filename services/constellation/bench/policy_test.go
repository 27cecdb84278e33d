package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"zino/pkg/gate"
)

// benchPolicy decides a command line, and writing a file, among 100 rules.
func benchPolicy(b *bench) ([]line, error) {
	dir, err := os.MkdirTemp("", "zino-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var rules strings.Builder
	for i := range 90 {
		fmt.Fprintf(&rules, "[[rule]]\naction = \"allow\"\ntool = [\"bash\"]\ncommand = [\"tool%d *\"]\n", i)
	}
	for i := range 9 {
		fmt.Fprintf(&rules, "[[rule]]\naction = \"deny\"\ntool = [\"write\"]\npath = [\"secret%d/**\"]\n", i)
	}
	rules.WriteString("[[rule]]\naction = \"allow\"\ncommand = [\"git diff *\", \"go test *\", \"head *\"]\n")
	file := filepath.Join(dir, "policy.toml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		return nil, err
	}
	p := gate.New(gate.Places{Host: filepath.Join(dir, "none"), User: file})
	command := &gate.Call{Tool: "bash", Command: `git diff --stat "main" && go test ./... 2>/dev/null | head -50`, Root: dir, Mode: gate.Asks}
	write := &gate.Call{Tool: "write", Path: "src/main.go", Root: dir, Mode: gate.Auto}
	for _, c := range []*gate.Call{command, write} {
		if d := p.Decide(c); d.Action != gate.Allow {
			return nil, fmt.Errorf("%s: %+v", c.Tool, d)
		}
	}
	return []line{
		{name: "policy of a command line, 100 rules", measured: timed(b.scale(20), 200, func() { p.Decide(command) }), goals: []goal{atMost(100e3)}},
		{name: "policy of a write, 100 rules", measured: timed(b.scale(20), 200, func() { p.Decide(write) }), goals: []goal{atMost(100e3)}},
	}, nil
}
