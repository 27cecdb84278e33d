package hook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"zino/pkg/catalog/skill/folders"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	outputMax = 1 << 20         // bytes that a hook may print
	late      = 5 * time.Second // after its limit: exc did not end a hook
)

// Place is where and how hooks run: as the commands of the turn.
type Place struct {
	Root, Cwd string
	Sandbox   proto.Level
	Network   *bool
	Confined  bool              // the level is another one than off
	Env       map[string]string // of the caller; nil: exc's own
	Umask     *int
	Turn      string
	Token     string
}

// errCut ends a hook that prints too much.
var errCut = errors.New("too much output")

// Run runs the hooks of an event side by side, and returns what they decide. When ctx
// ends, they are ended, and the result does not count.
func (s *Set) Run(ctx context.Context, exc *rpc.Client, p Place, event string, in Input) Result {
	event = canonical(event)
	if in.Cwd == "" {
		in.Cwd = p.Root
		if in.Cwd == "" {
			in.Cwd = p.Cwd
		}
	}
	var res Result
	hooks := s.matching(event, in.names(event))
	if len(hooks) > 0 {
		res = s.runAll(ctx, exc, p, event, &in, hooks)
	}
	if in.Shown {
		res.in, _ = in.encode(event) // it was encoded for each run
	}
	return res
}

func (s *Set) runAll(ctx context.Context, exc *rpc.Client, p Place, event string, in *Input, hooks []*compiled) Result {
	runs := make([]ran, len(hooks))
	inputs := map[string][]byte{} // by event, for a handoff two
	var all sync.WaitGroup
	for i, h := range hooks {
		runs[i].hook = h
		if inputs[h.Event] == nil {
			if inputs[h.Event], runs[i].err = in.encode(h.Event); runs[i].err != nil {
				continue
			}
		}
		input := inputs[h.Event]
		all.Go(func() { runs[i] = h.run(ctx, exc, p, in.SessionID, input) })
	}
	all.Wait()
	return s.compose(event, in, runs)
}

// run runs one hook.
func (h *compiled) run(ctx context.Context, exc *rpc.Client, p Place, session string, input []byte) ran {
	r := ran{hook: h}
	if r.err = checkScripts(h.Scripts); r.err != nil {
		return r
	}
	limit := time.Duration(h.TimeoutMS) * time.Millisecond
	req := proto.Pipe{
		Argv: []string{"sh", "-c", h.Command}, Base: p.Env, Env: p.variables(session), Root: p.Root, Cwd: p.Cwd, Sandbox: p.Sandbox, Network: p.Network,
		Name: "hook " + h.name, TimeoutS: limit.Seconds(), SessionID: session, Turn: p.Turn, Token: p.Token, Umask: p.Umask,
	}
	if p.Confined && h.Network != nil && !*h.Network {
		req.Network = h.Network
	}
	long := len(input) > proto.PipeStdinMax
	if !long {
		stdin := string(input)
		req.Stdin = &stdin
	}
	ctx, cancel := context.WithTimeout(ctx, limit+late)
	defer cancel()
	var stdout, stderr strings.Builder
	var writing sync.WaitGroup
	started := time.Now()
	end, err := rpc.CallEvents(ctx, exc, proto.ExcPipe, req, func(typ string, payload []byte) error {
		switch typ {
		case proto.TypePipeStarted:
			var start proto.PipeStarted
			if err := wire.DecodeReply(payload, &start); err != nil || !long {
				return err
			}
			writing.Go(func() { write(ctx, exc, start.Pipe, input) })
		case proto.TypePipeOutput:
			var out proto.PipeOutput
			if err := wire.DecodeReply(payload, &out); err != nil {
				return err
			}
			to := &stdout
			if out.Stream == "stderr" {
				to = &stderr
			}
			to.WriteString(out.Text)
			if stdout.Len()+stderr.Len() > outputMax {
				return errCut
			}
		}
		return nil
	})
	cancel()
	writing.Wait()
	r.ms = time.Since(started).Milliseconds()
	r.stdout, r.stderr, r.exitCode, r.timedOut = stdout.String(), stderr.String(), end.ExitCode, end.TimedOut
	switch {
	case errors.Is(err, errCut):
		r.cut = true
	case errors.Is(err, context.DeadlineExceeded):
		r.timedOut = true
	case err != nil:
		r.err = err
	}
	return r
}

var sums folders.Sums // of the scripts of projects

// checkScripts returns an error if the scripts of a project differ from those that a person
// trusted. What the hook opens later is not checked.
func checkScripts(trusted *proto.HookScripts) error {
	if trusted == nil {
		return nil
	}
	now, err := folders.Read(trusted.Dir, &sums)
	if now.SHA256 == trusted.SHA256 && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return nil
	}
	return fmt.Errorf("%s: %s", trusted.Dir, folders.Changed)
}

// write writes an input that is too long for the request. A hook need not read it.
func write(ctx context.Context, exc *rpc.Client, pipe string, input []byte) {
	for len(input) > 0 {
		piece := input[:min(len(input), proto.PipeOutputMax)]
		input = input[len(piece):]
		// Input is valid UTF-8, and a JSON string splits no character only if the pieces do not.
		for len(input) > 0 && input[0]&0xc0 == 0x80 {
			piece, input = piece[:len(piece)+1], input[1:]
		}
		if _, err := rpc.Call(ctx, exc, proto.ExcPipeWrite, proto.PipeWrite{Pipe: pipe, Text: string(piece), Close: len(input) == 0}); err != nil {
			return
		}
	}
}

// variables returns what hooks have in their environment besides that of executed code.
func (p *Place) variables(session string) map[string]string {
	root := p.Root
	if root == "" {
		root = p.Cwd
	}
	return map[string]string{"CLAUDE_PROJECT_DIR": root, "ZINO_ROOT": root, "ZINO_SESSION_ID": session}
}

// shownMax limits what Test shows of an output, in bytes.
const shownMax = 16 << 10

// Test returns what the hooks of an event did, for zino hooks test.
func (r *Result) Test() proto.HookTest {
	t := proto.HookTest{Input: r.in, Runs: []proto.HookRun{}, Decision: r.Decision, Reason: r.Reason, RunInput: r.Input, Context: r.Block(), Notices: r.Notices}
	for _, run := range r.runs {
		v := run.read("")
		t.Runs = append(t.Runs, proto.HookRun{
			Hook: run.hook.name, Command: run.hook.Command, Source: run.hook.Source, ExitCode: run.exitCode, DurationMS: run.ms,
			Stdout: text.Head(run.stdout, shownMax), Stderr: text.Head(run.stderr, shownMax), Failure: v.failure,
		})
	}
	switch {
	case r.Ends:
		t.Decision, t.Reason = proto.HookEndsTurn, r.Why
	case t.Decision == "":
		t.Decision = proto.HookNone
	}
	return t
}
