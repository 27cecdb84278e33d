package turnlog

import (
	"strings"

	"zino/pkg/wire"
	"zino/proto"
)

// AgentsMax is how many sub-agents a turn starts.
const AgentsMax = 16

// AgentCall names a call that starts a sub-agent.
type AgentCall struct {
	// Step is the inference that asked for it.
	Step int
	// ID is the call's id, unique within the step.
	ID string
}

// Agent is what a call asks of a sub-agent.
type Agent struct {
	// Request is the task.
	Request string
	// Write is whether the sub-agent may change files.
	Write bool
}

// AgentOf returns what a call asks of a sub-agent; ok is false if it starts none.
func AgentOf(call proto.OpenCall) (Agent, bool) {
	var input struct {
		Skill   string `json:"skill"`
		Request string `json:"request"`
		Write   bool   `json:"write"`
	}
	if call.Name != proto.TaskTool || wire.DecodeReply(call.Arguments(), &input) != nil {
		return Agent{}, false
	}
	a := Agent{strings.TrimSpace(input.Request), input.Write}
	return a, input.Skill == proto.AgentSkill && a.Request != ""
}
