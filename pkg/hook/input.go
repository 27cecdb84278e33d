package hook

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
)

// Input is what hooks read. Which fields of the second part they get depends on the event.
type Input struct {
	SessionID  string
	Transcript string // path of the session's file
	Cwd        string
	Version    string // of Zino

	Tool         string    // Zino's name
	ToolInput    proto.Raw // in Zino's form
	ToolUseID    string
	ToolResponse proto.Raw // an envelope
	Prompt       string
	Source       string
	Trigger      string
	Message      string
	Kind         string // of a notification
	StopActive   bool
	LastMessage  string

	Extra proto.Raw // an object whose members are added
	Shown bool      // the result is shown, with the input that the hooks got
}

// event is the input in the form that hooks read.
type event struct {
	SessionID      string    `json:"session_id"`
	Transcript     string    `json:"transcript_path"`
	Cwd            string    `json:"cwd"`
	PermissionMode string    `json:"permission_mode"`
	Name           string    `json:"hook_event_name"`
	ToolName       string    `json:"tool_name,omitzero"`
	ToolInput      proto.Raw `json:"tool_input,omitzero"`
	ToolUseID      string    `json:"tool_use_id,omitzero"`
	ToolResponse   proto.Raw `json:"tool_response,omitzero"`
	Prompt         *string   `json:"prompt,omitzero"`
	Source         string    `json:"source,omitzero"`
	Trigger        string    `json:"trigger,omitzero"`
	Message        string    `json:"message,omitzero"`
	Kind           string    `json:"notification_type,omitzero"`
	StopActive     *bool     `json:"stop_hook_active,omitzero"`
	LastMessage    *string   `json:"last_assistant_message,omitzero"`
	Zino           own       `json:"zino"`
}

// own is the same in Zino's terms.
type own struct {
	Version string    `json:"version"`
	Tool    string    `json:"tool,omitzero"`
	Input   proto.Raw `json:"input,omitzero"`
}

// encode returns the input of an event.
func (in *Input) encode(name string) ([]byte, error) {
	e := event{
		SessionID: in.SessionID, Transcript: in.Transcript, Cwd: in.Cwd, PermissionMode: "default", Name: name,
		Zino: own{Version: in.Version},
	}
	switch canonical(name) {
	case proto.HookPreTool, proto.HookPostTool:
		e.ToolName, e.ToolInput = foreign(in.Tool, in.ToolInput, in.Cwd)
		e.ToolUseID = in.ToolUseID
		e.Zino.Tool, e.Zino.Input = in.Tool, members(in.ToolInput).object()
		if name == proto.HookPostTool {
			e.ToolResponse = response(in.ToolResponse)
		}
	case proto.HookUserPrompt:
		e.Prompt = &in.Prompt
	case proto.HookSessionStart:
		e.Source = in.Source
	case proto.HookStop:
		e.StopActive, e.LastMessage = &in.StopActive, &in.LastMessage
	case proto.HookPreHandoff:
		e.Trigger = in.Trigger
	case proto.HookNotification:
		e.Message, e.Kind = in.Message, in.Kind
	}
	b, err := wire.AppendObject(nil, "", e)
	if err != nil {
		return nil, err
	}
	for key, value := range wire.Members(in.Extra) {
		b = append(wire.AppendString(append(b[:len(b)-1], ','), string(key)), ':')
		b = append(append(b, value...), '}')
	}
	return b, nil
}

// names returns the names that matchers of an event are compared with.
func (in *Input) names(event string) []string {
	switch canonical(event) {
	case proto.HookPreTool, proto.HookPostTool:
		name, _ := foreign(in.Tool, in.ToolInput, in.Cwd)
		return []string{in.Tool, name}
	case proto.HookSessionStart:
		return []string{in.Source}
	case proto.HookPreHandoff:
		return []string{in.Trigger}
	case proto.HookNotification:
		return []string{in.Kind}
	}
	return nil // all hooks of the event
}

// response returns the result of a call as hooks know it: the data of the envelope, or its
// error.
func response(envelope proto.Raw) proto.Raw {
	for key, value := range wire.Members(envelope) {
		switch string(key) {
		case "data":
			return proto.Raw(value)
		case "error":
			return append(append(proto.Raw(`{"error":`), value...), '}')
		}
	}
	return proto.Raw("{}")
}

// translation is the form of a tool that existing hooks test for.
type translation struct {
	name string
	keys [][2]string // Zino's, and the other one
}

var translations = map[string]translation{
	"bash":  {"Bash", nil},
	"read":  {"Read", [][2]string{{"path", "file_path"}}},
	"write": {"Write", [][2]string{{"path", "file_path"}}},
	"edit":  {"Edit", [][2]string{{"path", "file_path"}, {"old", "old_string"}, {"new", "new_string"}}},
	"skill": {"Skill", nil},
}

// mcpCall is the tool that calls the tools of MCP servers.
const mcpCall = "mcp_call"

// foreign returns the name and the input of a call as existing hooks know them. The path
// of a file becomes absolute: a hook that compares directories would miss another one.
func foreign(tool string, input proto.Raw, cwd string) (name string, translated proto.Raw) {
	if tool == mcpCall {
		var call struct {
			Server    string    `json:"server"`
			Tool      string    `json:"tool"`
			Arguments proto.Raw `json:"arguments"`
		}
		if wire.DecodeReply(input, &call) == nil && call.Server != "" && call.Tool != "" {
			if len(call.Arguments) == 0 || string(call.Arguments) == "null" {
				call.Arguments = proto.Raw("{}")
			}
			return "mcp__" + call.Server + "__" + call.Tool, members(call.Arguments).object()
		}
	}
	t, ok := translations[tool]
	if !ok {
		return tool, members(input).object()
	}
	list := members(input)
	for _, pair := range t.keys {
		list = list.without(pair[1]) // unknown to the tool, and could stand for what is translated
	}
	for i := range list {
		for _, pair := range t.keys {
			if list[i].key == pair[0] {
				list[i].key = pair[1]
				if pair[0] == "path" {
					list[i].value = absolute(list[i].value, cwd)
				}
				break
			}
		}
	}
	return t.name, list.object()
}

// native is the inverse of foreign for an input that a hook has changed. before is the
// input of the call.
func native(tool string, changed, before proto.Raw) proto.Raw {
	if name, _ := foreign(tool, before, ""); tool == mcpCall && name != tool {
		return append(members(before).without("arguments"), member{"arguments", changed}).object()
	}
	list := members(changed)
	for _, pair := range translations[tool].keys {
		if i := list.index(pair[1]); i >= 0 {
			value := list[i].value
			list = append(list.without(pair[0]).without(pair[1]), member{pair[0], value})
		}
	}
	return list.object()
}

// member is a member of an object.
type member struct {
	key   string
	value proto.Raw
}

type memberList []member

// members returns the members of an object, each key once: as the tools read it, the last
// value counts that is not null. Other readers decide otherwise, and a model could show a
// hook another input than it runs.
func members(object proto.Raw) (list memberList) {
	for key, value := range wire.Members(object) {
		i := list.index(string(key))
		switch {
		case i < 0:
			list = append(list, member{string(key), proto.Raw(value)})
		case string(value) != "null":
			list[i].value = proto.Raw(value)
		}
	}
	return list
}

func (l memberList) index(key string) int {
	return slices.IndexFunc(l, func(m member) bool { return m.key == key })
}

func (l memberList) without(key string) memberList {
	return slices.DeleteFunc(l, func(m member) bool { return m.key == key })
}

func (l memberList) object() proto.Raw {
	b := proto.Raw{'{'}
	for i, m := range l {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(wire.AppendString(b, m.key), ':'), m.value...)
	}
	return append(b, '}')
}

// absolute returns the path of a JSON string below cwd, unless it is absolute or not known.
func absolute(value proto.Raw, cwd string) proto.Raw {
	var path string
	if json.Unmarshal(value, &path) != nil || path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "~") || !filepath.IsAbs(cwd) {
		return value
	}
	return wire.AppendString(nil, filepath.Join(cwd, path))
}
