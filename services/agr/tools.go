package agr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"zino/pkg/catalog"
	"zino/pkg/rpc"
	"zino/proto"
)

// toolCall carries out a <tool_call> block of a plain run.
func (t *turn) toolCall(body []byte) outcome {
	name, arguments, err := parseCall(body)
	if err != nil {
		return malformedCall(err)
	}
	tool, ok := t.s.cat.Snapshot().Function(name)
	if !ok {
		return unknownFunction(name)
	}
	fields, err := argumentsOf(arguments)
	if err != nil {
		return malformedCall(err)
	}
	return t.use(tool, fields)
}

// use carries out a call of a tool that has a file. Whatever is wrong with the
// call is a result that the model reads, never the end of the turn.
func (t *turn) use(tool catalog.Tool, fields map[string]json.RawMessage) outcome {
	switch tool.Builtin {
	case catalog.Remember:
		return t.remember(fields)
	case catalog.Recall:
		return t.recall(fields)
	}
	return t.runCode(tool.Executor, fields)
}

// runCode carries out the call of an executor.
func (t *turn) runCode(executor string, fields map[string]json.RawMessage) outcome {
	code, err := text(fields, "code")
	if err != nil {
		return malformedCall(err)
	}
	if strings.TrimSpace(code) == "" {
		return refused("Empty code block.")
	}
	result, err := t.execute(executor, code)
	if err != nil {
		return failed(err)
	}
	return outcome{ran: &result, confined: result.Confinement}
}

// parseCall reads {"name": …, "arguments": …}.
func parseCall(body []byte) (name string, arguments json.RawMessage, err error) {
	call, err := object(body)
	if err != nil {
		return "", nil, err
	}
	name, err = text(call, "name")
	return name, call["arguments"], err
}

// argumentsOf reads a call's arguments: an object, or a string that holds one,
// as some models write it. Without arguments there are no fields.
func argumentsOf(arguments json.RawMessage) (map[string]json.RawMessage, error) {
	if len(arguments) == 0 || string(arguments) == "null" {
		return nil, nil
	}
	var quoted string
	if json.Unmarshal(arguments, &quoted) == nil {
		arguments = json.RawMessage(quoted)
	}
	fields, err := object(arguments)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return fields, nil
}

// object decodes one JSON object with its keys as they are.
func object(body []byte) (map[string]json.RawMessage, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return nil, errors.New("the block is empty")
	}
	if json.Valid(body) && body[0] != '{' {
		return nil, errors.New("expected an object")
	}
	var fields map[string]json.RawMessage
	err := json.Unmarshal(body, &fields)
	return fields, err
}

// text returns a field that must be a string if it is there.
func text(fields map[string]json.RawMessage, name string) (string, error) {
	raw, ok := fields[name]
	if !ok || string(raw) == "null" {
		return "", nil
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", fmt.Errorf("%s must be a string", name)
	}
	return s, nil
}

// execute has exc run code.
func (t *turn) execute(executor, code string) (proto.Result, error) {
	return rpc.Call(t.ctx, t.s.exc, proto.ExcExecute, proto.Execute{
		Executor: executor, Code: code, Root: t.req.Root, Sandbox: t.req.Sandbox, Network: t.req.Network,
		Env: t.req.Env, Cwd: t.req.Cwd, Umask: t.req.Umask,
	})
}

// resultText is what a model sees of a run.
func resultText(r proto.Result) string {
	var parts []string
	if r.Stdout != "" {
		parts = append(parts, r.Stdout)
	}
	if r.Stderr != "" {
		parts = append(parts, "[stderr]\n"+r.Stderr)
	}
	if r.ExitCode != 0 {
		parts = append(parts, fmt.Sprintf("[exit code: %d]", r.ExitCode))
	}
	if len(parts) == 0 {
		return "(no output)"
	}
	return strings.Join(parts, "\n")
}
