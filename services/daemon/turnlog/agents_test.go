package turnlog

import (
	"fmt"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestAgents checks which calls count as sub-agents, that a turn keeps the first 16 of
// them, and that their usage counts for the turn.
func TestAgents(t *testing.T) {
	lines := []string{meta, started, asked}
	use := func(id, name, input string) {
		lines = append(lines, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s,"turn":"t-1","step":2}`, id, name, input))
	}
	for _, other := range []string{`{"skill":"disk","request":"x"}`, `{"skill":"agent"}`, `{"skill":"agent","request":" "}`, `{"skill":"agent","request":7}`, `{"skill":"agent","request":"x","write":"yes"}`, `"x"`} {
		use("other", "task", other)
	}
	use("bash", "bash", `{"skill":"agent","request":"x"}`)
	for n := range AgentsMax + 1 {
		use(fmt.Sprint("a", n), "task", `{"request":"look","skill":"agent"}`)
	}
	lines = append(lines, usage, `{"type":"tool_result","tool_use_id":"a0","output":{},"usage":{"input_tokens":7,"output_tokens":2,"cost_usd":0.25},"turn":"t-1"}`)
	turn := logOf(lines...).read().Turn("t-1")
	zinotest.Equal(t, "agents", len(turn.Agents), AgentsMax)
	zinotest.Equal(t, "first and last", fmt.Sprint(turn.Agents[0], turn.Agents[AgentsMax-1]), "{2 a0} {2 a15}")
	zinotest.Equal(t, "tokens and cost", fmt.Sprint(turn.Usage.InputTokens, turn.Usage.OutputTokens, *turn.Usage.CostUSD), "17 7 0.75")
	zinotest.Equal(t, "tokens of the last inference", turn.Tokens, 15)
	agent, ok := AgentOf(proto.OpenCall{Name: "task", Input: proto.Raw(`{"skill":"agent","request":"x","write":true}`)})
	zinotest.Equal(t, "call", fmt.Sprint(agent, ok), "{x true} true")
}

// TestParent checks that a turn keeps the call that started it.
func TestParent(t *testing.T) {
	child := `{"type":"turn","turn":"t-1","session_id":"s","state":"running","request":{"parent":{"session_id":"p","turn":"t-0","call":"c"}}}`
	log := logOf(meta, child, done1).read()
	zinotest.Equal(t, "parent", *log.Turn("t-1").Parent, proto.LogParent{SessionID: "p", Turn: "t-0", Call: "c"})
	if p := logOf(meta, started).read().Turn("t-1").Parent; p != nil {
		t.Errorf("a turn of a person has the parent %v", *p)
	}
}
