package cli

import (
	"context"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/cli/render"
)

// stepping returns a script that waits for the test between its parts.
func stepping(parts ...[]string) (script func(context.Context, proto.Chat, *rpc.Out) (proto.Text, error), next chan struct{}) {
	next = make(chan struct{})
	return func(ctx context.Context, _ proto.Chat, out *rpc.Out) (proto.Text, error) {
		for _, part := range parts {
			for _, packet := range part {
				if err := out.Frame([]byte(packet)); err != nil {
					return proto.Text{}, err
				}
			}
			if err := out.Flush(); err != nil {
				return proto.Text{}, err
			}
			select {
			case <-next:
			case <-ctx.Done():
				return proto.Text{}, ctx.Err()
			}
		}
		return proto.Text{Content: "x"}, nil
	}, next
}

// execOn runs a script on a terminal of the given width.
func execOn(t *testing.T, columns uint16, env string, args []string, parts ...[]string) (x *terminal, next chan struct{}) {
	t.Helper()
	f := newFake(t, "")
	script, next := stepping(parts...)
	f.plays(script)
	cmd := newWorld(t).command(append([]string{"--socket", f.socket, "exec", "-p", "play"}, args...)...)
	cmd.Env = append(cmd.Env, env)
	x = &terminal{zinotest.NewTerminal(t), t}
	x.Resize(columns)
	x.Start(cmd)
	return x, next
}

// left waits for the exit and compares the screen.
func (x *terminal) left(columns int, want ...string) {
	x.t.Helper()
	x.Exit()
	x.Shows(want[len(want)-1]) // the last output may not have been read yet
	zinotest.Eventually(x.t, "the last newline", func() bool { return strings.HasSuffix(x.Written.String(), "\n") })
	if got := x.Rows(columns); !slices.Equal(got, append(want, "")) {
		x.t.Errorf("screen:\n%s\nwritten as %q", strings.Join(got, "\n"), x.Written.String())
	}
}

// TestScreenNarrow checks a turn on twenty columns: the indicator fits into a row and is
// erased.
func TestScreenNarrow(t *testing.T) {
	t.Parallel()
	const long = `{"type":"tool_output","id":"a","text":"compiling a very long name of a package\n"}`
	x, next := execOn(t, 20, "", nil,
		[]string{wants("bash", `{"command":"make"}`), starts},
		[]string{long},
		[]string{ends, say1},
		[]string{say2, final, used})
	x.Shows("] bash")
	next <- struct{}{}
	x.Shows("] bash: comp")
	for line := range strings.SplitSeq(x.Written.String(), "\r") {
		if found := strings.Contains(line, "] bash"); found && render.Cells(strings.NewReplacer("\x1b[K", "", "\x1b[2m", "", "\x1b[0m", "").Replace(line)) > 19 {
			t.Errorf("drew %q", line)
		}
	}
	next <- struct{}{}
	x.Shows("one ")
	next <- struct{}{}
	next <- struct{}{}
	x.left(20,
		"Tool requested: bash", " command=\"make\"", "Done. (0.12s)", "Tool finished: bash ", "exit=3",
		"one two", "5 tokens in, 7 out, ", "$0.5000")
}

// TestScreenResized checks that the indicator follows the terminal's width.
func TestScreenResized(t *testing.T) {
	t.Parallel()
	output := func(text string) string { return `{"type":"tool_output","id":"a","text":"` + text + `"}` }
	x, next := execOn(t, 60, "", nil, []string{starts, output("0123456789012345678901234567890")}, []string{output("abcdefghijklmnopqrstuvwxyz")}, []string{say1})
	x.Shows("] bash: 0123456789012345678901234567890")
	x.Resize(20)
	next <- struct{}{}
	x.Shows("] bash: abcdef")
	if x.Written.Contains("abcdefghijk") {
		t.Errorf("too wide: %q", x.Written.String())
	}
	next <- struct{}{}
	x.Shows("one ")
	next <- struct{}{}
	x.Exit()
}

// TestScreenPlain checks that NO_COLOR and TERM=dumb disable control sequences.
func TestScreenPlain(t *testing.T) {
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			x, next := execOn(t, 80, env, []string{"--reasoning"},
				[]string{`{"type":"reasoning","text":"hm\u001b["}`, wantsBash, starts, prints},
				[]string{strings.Replace(ends, `"id"`, `"diff":"-a\n+b\n","id"`, 1), say1, used})
			x.Shows("Tool requested")
			next <- struct{}{}
			next <- struct{}{}
			x.left(80, "hm^[[", `Tool requested: bash command="ls \"x\"\n\x1b[31m"`, "Done. (0.12s)", "Tool finished: bash exit=3", "-a", "+b", "one ", "5 tokens in, 7 out, $0.5000")
			if x.Written.Contains("\x1b") {
				t.Errorf("written as %q", x.Written.String())
			}
		})
	}
}

// TestScreenReasoning checks that reasoning is dimmed, on separate lines.
func TestScreenReasoning(t *testing.T) {
	t.Parallel()
	thought := func(text string) string { return `{"type":"reasoning","text":"` + text + `"}` }
	x, next := execOn(t, 80, "", []string{"--reasoning"}, []string{thought("so "), thought("it is\\n"), say1, final, thought("again"), notice("retry", "once more"), say2})
	next <- struct{}{}
	x.left(80, "so it is", "one ", "again", "once more", "two")
	if !x.Written.Contains("\x1b[2mso \x1b[0m") {
		t.Errorf("written as %q", x.Written.String())
	}
}
