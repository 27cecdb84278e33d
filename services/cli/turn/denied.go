package turn

import (
	"fmt"
	"strconv"
	"strings"

	"zino/pkg/gate"
	"zino/pkg/gate/propose"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// denials counts the calls of a turn that the mode or the policy denied.
type denials struct {
	render.Turns
	arguments        map[string]string // by the id of the call, until it has finished
	finished, denied int
	tool, argument   string // of the first call that a person would have to allow
	level            string // its level of the sandbox
}

func newDenials(turns render.Turns) *denials {
	return &denials{Turns: turns, arguments: map[string]string{}}
}

// Event renders a packet.
func (d *denials) Event(typ string, payload []byte) error {
	switch typ {
	case proto.TypeToolRequested:
		var call proto.ToolRequested
		var input struct {
			Command string `json:"command,omitzero"`
			Path    string `json:"path,omitzero"`
		}
		if wire.DecodeReply(payload, &call) == nil && wire.DecodeReply(call.Input, &input) == nil {
			d.arguments[call.ID] = input.Command + input.Path // a tool has one of them
		}
	case proto.TypeToolFinished:
		var call proto.ToolFinished
		if wire.DecodeReply(payload, &call) == nil {
			d.count(call)
		}
	}
	return d.Turns.Event(typ, payload)
}

func (d *denials) count(call proto.ToolFinished) {
	argument := d.arguments[call.ID]
	delete(d.arguments, call.ID)
	d.finished++
	var result struct {
		Error proto.ToolError `json:"error,omitzero"`
	}
	if call.OK || wire.DecodeReply(call.Result, &result) != nil || result.Error.Code != proto.ToolDenied {
		return
	}
	what, asks := strings.CutPrefix(result.Error.Message, gate.NeedsPerson)
	if asks && d.tool == "" {
		d.argument = argument
		d.tool, d.level, _ = strings.Cut(strings.TrimSuffix(what, "."), " at sandbox level ")
	}
	if asks || strings.HasPrefix(result.Error.Message, gate.Denied) {
		d.denied++
	}
}

// report says after a turn how to allow what a person would have had to. The error is err,
// or ErrReported if every call was denied.
func (d *denials) report(env *command.Env, mode string, err error) error {
	if d.tool != "" {
		env.Say("%s", d.line(mode, env.JSON() || !term.IsTerminal(env.In) || !term.IsTerminal(env.Err)))
	}
	if err == nil && d.denied > 0 && d.denied == d.finished {
		return render.ErrReported
	}
	return err
}

// argumentMax is the length of an argument that is printed whole, in characters.
const argumentMax = 200

func (d *denials) line(mode string, headless bool) string {
	var why []string
	if mode != "" {
		why = append(why, "mode "+mode)
	}
	if headless {
		why = append(why, "no terminal")
	} else {
		why = append(why, "this turn cannot ask")
	}
	call, allow, rule := d.tool, []string{}, "zino policy add allow "+d.tool
	if d.argument != "" {
		call += " " + strconv.Quote(text.Clip(d.argument, argumentMax))
	}
	switch d.tool {
	case "bash":
		rule += " " + quoteWord(propose.Pattern(strings.TrimSpace(d.argument)))
	case "read", "write", "edit":
		rule += " " + quoteWord(d.argument)
	}
	if d.level == string(proto.LevelOff) && (d.tool == "bash" || strings.HasPrefix(d.tool, "execute_")) {
		allow = append(allow, "--sandbox workspace-write")
	}
	allow = append(allow, "--mode yolo")
	line := fmt.Sprintf("Denied: %s (%s). Allow it with ", render.Line(call), strings.Join(why, ", "))
	if rule != render.Line(rule) || len(d.argument) > argumentMax { // not a line to copy
		return line + strings.Join(allow, " or ")
	}
	return line + strings.Join(allow, ", ") + ", or a rule: " + rule
}

// quoteWord quotes a word for a shell, with double quotes where they keep its characters.
func quoteWord(word string) string {
	if strings.ContainsAny(word, "\"$`\\!") {
		return render.ShellWord(word)
	}
	return `"` + word + `"`
}
