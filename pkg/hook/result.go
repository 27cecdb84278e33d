package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// Limits of what a hook adds.
const (
	reasonMax  = 4 << 10 // bytes of a reason
	contextMax = 10_000  // characters of context of an event
	noticeMax  = 500     // characters of a notice
)

// ran is the end of a hook's command.
type ran struct {
	hook           *compiled
	exitCode       int
	timedOut       bool
	stdout, stderr string
	cut            bool  // it was ended because it printed too much
	err            error // it could not be run
	ms             int64
}

// verdict is what one hook decides.
type verdict struct {
	hook     *compiled
	decision string // deny, ask, allow, or empty
	reason   string
	stops    bool   // continue: false
	why      string // stopReason
	system   string
	context  string
	input    proto.Raw // changed, as the hook wrote it
	failure  string
}

// answer is the JSON that a hook prints. Unknown keys are ignored.
type answer struct {
	Continue   *bool  `json:"continue"`
	StopReason string `json:"stopReason"`
	System     string `json:"systemMessage"`
	Decision   string `json:"decision"`
	Reason     string `json:"reason"`
	Specific   struct {
		Decision string          `json:"permissionDecision"`
		Reason   string          `json:"permissionDecisionReason"`
		Input    json.RawMessage `json:"updatedInput"`
		Context  string          `json:"additionalContext"`
	} `json:"hookSpecificOutput"`
}

// read returns what the end of a hook means for an event.
func (r *ran) read(event string) verdict {
	v := verdict{hook: r.hook}
	switch {
	case r.err != nil:
		v.failure = "failed: " + r.err.Error()
	case r.timedOut:
		v.failure = fmt.Sprintf("was stopped after %gs", float64(r.hook.TimeoutMS)/1000)
	case r.cut:
		v.failure = fmt.Sprintf("was stopped: it printed more than %s", text.Bytes(outputMax))
	case r.exitCode == 2:
		v.decision, v.reason = proto.HookDeny, r.stderr
	case r.exitCode < 0:
		v.failure = fmt.Sprintf("failed (signal %d)%s", -r.exitCode, firstLine(r.stderr))
	case r.exitCode != 0:
		v.failure = fmt.Sprintf("failed (exit %d)%s", r.exitCode, firstLine(r.stderr))
	default:
		v.print(event, r.stdout)
	}
	if v.failure != "" && r.hook.OnFailure == proto.HookBlock {
		v.decision, v.reason = proto.HookDeny, "hook "+r.hook.name+" "+v.failure
	}
	return v
}

// print applies the output of a hook that has succeeded.
func (v *verdict) print(event, stdout string) {
	out := strings.TrimSpace(stdout)
	if !strings.HasPrefix(out, "{") {
		if event == proto.HookSessionStart || event == proto.HookUserPrompt {
			v.context = out
		}
		return
	}
	a, err := parse([]byte(out))
	if err != nil {
		v.failure = "failed: its output is not a decision: " + err.Error()
		return
	}
	v.stops, v.why, v.system = a.Continue != nil && !*a.Continue, a.StopReason, a.System
	v.context, v.input = a.Specific.Context, proto.Raw(a.Specific.Input)
	v.reason = a.Reason
	switch a.Decision {
	case "block":
		v.decision = proto.HookDeny
	case "approve":
		v.decision = proto.HookPermit
	}
	if a.Specific.Decision != "" {
		v.decision, v.reason = a.Specific.Decision, a.Specific.Reason
	}
	if v.decision == proto.HookDeny && strings.TrimSpace(v.reason) == "" {
		v.reason = v.system
	}
}

// parse reads the JSON that a hook prints.
func parse(out []byte) (a answer, err error) {
	if err := json.Unmarshal(out, &a); err != nil {
		return a, err
	}
	if !slices.Contains([]string{"", "block", "approve"}, a.Decision) {
		return a, fmt.Errorf("decision %q: want block or approve", text.Clip(a.Decision, nameMax))
	}
	if !slices.Contains([]string{"", proto.HookDeny, proto.HookAsk, proto.HookPermit}, a.Specific.Decision) {
		return a, fmt.Errorf("permissionDecision %q: want allow, deny or ask", text.Clip(a.Specific.Decision, nameMax))
	}
	if in := a.Specific.Input; string(in) == "null" {
		a.Specific.Input = nil
	} else if len(in) > 0 {
		line, err := wire.Line(in)
		if err != nil || line[0] != '{' {
			return a, errors.New("updatedInput is not an object")
		}
		a.Specific.Input = line
	}
	return a, nil
}

// firstLine returns the first line of what a hook printed, for a message.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if line == "" {
		return ""
	}
	return ": " + line
}

// Result is what the hooks of an event decide together.
type Result struct {
	// Decision is proto.HookDeny, HookAsk or HookPermit; empty: none. deny beats ask, and
	// ask beats allow.
	Decision string
	// Hook is the short name of the hook that decides, and Reason its text.
	Hook, Reason string
	// Ends is true if the turn is to end, for the reason Why.
	Ends bool
	Why  string
	// Input is the changed input of a call, in Zino's form; nil: not changed.
	Input proto.Raw
	// Context is what hooks add for the model.
	Context []Context
	// Notices are lines for the user.
	Notices []string
	// Ran are what a daemon counts.
	Ran []proto.HookRan

	runs []ran
	in   []byte
}

// Context is a text of a hook for the model.
type Context struct{ Hook, Text string }

// Blocks reports whether the hooks block an event that is not a call.
func (r *Result) Blocks() bool { return r.Decision == proto.HookDeny || r.Ends }

// Message returns why the hooks block.
func (r *Result) Message() string {
	if r.Decision == proto.HookDeny {
		return r.Reason
	}
	return r.Why
}

// Block returns the context as user-role blocks; empty: none.
func (r *Result) Block() string {
	var b strings.Builder
	for i, c := range r.Context {
		if i > 0 {
			b.WriteByte('\n')
		}
		// The end tag in a text would let the rest stand outside of the block.
		body := strings.ReplaceAll(c.Text, "</hook>", "<\\/hook>")
		fmt.Fprintf(&b, "<hook name=%q>\n%s\n</hook>", strings.ReplaceAll(c.Hook, `"`, "'"), body)
	}
	return b.String()
}

// Text returns the reason of a block and the context as one text, for the member hook of
// a result.
func (r *Result) Text() string {
	var parts []string
	if r.Decision == proto.HookDeny && r.Reason != "" {
		parts = append(parts, r.Reason)
	}
	for _, c := range r.Context {
		parts = append(parts, c.Text)
	}
	return strings.Join(parts, "\n")
}

// compose puts the ends of hooks together, in the order of their configuration.
func (s *Set) compose(event string, in *Input, runs []ran) Result {
	res := Result{runs: runs}
	rank := map[string]int{proto.HookPermit: 1, proto.HookAsk: 2, proto.HookDeny: 3}
	room := contextMax
	changedBy := ""
	for i := range runs {
		r := &runs[i]
		v := r.read(event)
		name := r.hook.name
		if v.failure != "" {
			res.notice("hook " + name + " " + v.failure)
		}
		if r.timedOut {
			res.Ran = append(res.Ran, proto.HookRan{Hook: name, Command: r.hook.Command, TimedOut: true})
			if s.timedOut(r.hook.Command) == timeoutsMax && r.hook.OnFailure != proto.HookBlock {
				res.notice(fmt.Sprintf("hook %s is off for this session: it was stopped %d times", name, timeoutsMax))
			}
		}
		if v.system != "" {
			res.notice("hook " + name + ": " + v.system)
		}
		if v.decision == proto.HookPermit && in.Tool != "" {
			res.Ran = append(res.Ran, proto.HookRan{Hook: name, Command: r.hook.Command, Allowed: in.Tool})
		}
		if rank[v.decision] > rank[res.Decision] {
			res.Decision, res.Hook = v.decision, name
			if res.Reason = bounded(v.reason); res.Reason == "" && v.decision != proto.HookPermit {
				res.Reason = name + " gave no reason"
			}
		}
		if v.stops && !res.Ends {
			res.Ends, res.Why = true, bounded(v.why)
			if res.Why == "" {
				res.Why = "hook " + name + " ended the turn"
			}
		}
		switch {
		case v.input == nil || event != proto.HookPreTool:
		case changedBy != "":
			res.notice(fmt.Sprintf("hook %s: its input is not used, hook %s has changed it, too", name, changedBy))
		default:
			changedBy, res.Input = name, native(in.Tool, v.input, in.ToolInput)
		}
		if v.context != "" && room > 0 {
			c := text.Clip(strings.ToValidUTF8(v.context, "\ufffd"), room)
			room -= len([]rune(c))
			res.Context = append(res.Context, Context{name, c})
		}
	}
	return res
}

// bounded returns a reason of valid UTF-8 within its limit.
func bounded(reason string) string {
	return text.Head(strings.ToValidUTF8(strings.TrimSpace(reason), "\ufffd"), reasonMax)
}

// notice adds a line for the user.
func (r *Result) notice(line string) {
	r.Notices = append(r.Notices, text.VisibleLine(text.Clip(text.OneLine(line), noticeMax)))
}

// EndNotice returns the notice about a turn that a hook ends.
func EndNotice(why string) proto.Notice {
	return proto.Notice{Kind: proto.NoticeHook, Text: text.VisibleLine(text.Clip(text.OneLine("The turn was ended by a hook: "+why), noticeMax))}
}
