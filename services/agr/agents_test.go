package agr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// agentCall is a call that starts a sub-agent.
func agentCall(id, request string) string {
	return native(id, "task", `{"skill":"agent","request":`+quote(request)+`}`)
}

// TestAgents checks the packets of two sub-agents that run side by side, and that
// their results reach the model.
func TestAgents(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "bash", `{"command":"x"}`), agentCall("b", "look"), native("c", "task", `{"skill":"agent","request":"repair","write":true}`)), says("Done."))
	f := e.follow(question, `,"agents":true`)
	const look, repair = `{"ok":true,"data":{"text":"found","session_id":"s-2"}}`, `{"ok":false,"error":{"code":"tool_error","message":"no"}}`
	inputs := []string{`{"skill":"agent","request":"look"}`, `{"skill":"agent","request":"repair","write":true}`}
	for _, stage := range []struct {
		more    string
		packets []string
	}{
		{"", []string{requested("a", "bash", `{"command":"x"}`), requested("b", "task", inputs[0]), requested("c", "task", inputs[1]), checkpoint(1, "calls", "a")}},
		{"", []string{begun("a", "bash"), finished("a", "bash", string(said(""))), checkpoint(1, "calls", "b", "c")}},
		{`,"results":{"c":` + repair + `,"b":` + look + `},"usage":{"b":{"input_tokens":7,"output_tokens":2,"cost_usd":0.5}}`, []string{begun("b", "task"), begun("c", "task"), checkpoint(1, "delegate", "b", "c")}},
		{"", []string{strings.TrimSuffix(finished("b", "task", look), "}") + `,"usage":{"input_tokens":7,"output_tokens":2,"cost_usd":0.5}}`, finished("c", "task", repair), checkpoint(1, "infer")}},
	} {
		packets, at := f.until()
		compare(t, packets, stage.packets...)
		f.ok(at, stage.more)
	}
	zinotest.Contains(t, "terminal packet", f.finish(), `"usage":{"input_tokens":7,"output_tokens":2,"cost_usd":0.5}`)
	results := toolResults(t, e.rtr.asked()[1])
	if len(results) != 3 || results[1] != look || results[2] != repair {
		t.Errorf("the model sees %q", results)
	}
}

// TestAgentArguments checks the results of calls that are not passed on, and of those
// that the caller sends no result of.
func TestAgentArguments(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", agentCall("a", " \n"), native("b", "task", `{"skill":"agent"}`), native("c", "task", `{"skill":"agent","request":"x","write":"yes"}`),
		agentCall("d", "x"), agentCall("e", "y"), native("f", "task", `{"skill":"agent","request":7}`)), says("Done."))
	f := e.follow(question, `,"agents":true`)
	delegated := 0
	for {
		_, at := f.until()
		if at.Point == "" {
			break
		}
		if at.Point != proto.PointDelegate {
			f.ok(at, "")
			continue
		}
		delegated++
		zinotest.Equal(t, "delegated", strings.Join(at.Batch, " "), "d e")
		f.ok(at, `,"results":{"d":{"odd":1}}`)
	}
	zinotest.Equal(t, "checkpoints delegate", delegated, 1)
	e.checkResults(2, "invalid_input: Empty task request.", "invalid_input: Empty task request.", "invalid_input: Malformed task JSON: …",
		"tool_error: The sub-agent has no result.", "tool_error: The sub-agent has no result.", "invalid_input: Malformed task JSON: request must be a string")
}

// TestAgentRecovers checks that a sub-agent of an earlier attempt is asked for again,
// without a checkpoint for its start, and that stop ends the wait.
func TestAgentRecovers(t *testing.T) {
	t.Parallel()
	const result = `{"ok":true,"data":{"text":"found"}}`
	calls := `,"agents":true` + resumed(open("a", "task", `{"skill":"agent","request":"look"}`, "recover"), open("b", "task", `{"skill":"disk","request":"x"}`, "recover"))
	e := newEnv(t, says("Done."))
	f := e.follow(question, calls)
	packets, at := f.until()
	compare(t, packets, begun("a", "task"), checkpoint(4, "delegate", "a"))
	f.ok(at, `,"stop":"parked"`)
	zinotest.Equal(t, "terminal packet", f.finish(), `{"type":"done","full_text":"","iterations":0,"stop_reason":"parked"}`)
	f = e.follow(question, calls)
	_, at = f.until()
	f.ok(at, `,"results":{"a":`+result+`}`)
	packets, at = f.until()
	compare(t, packets, finished("a", "task", result), begun("b", "task"), marked(finished("b", "task", proto.InterruptedResult), "synthetic"), checkpoint(4, "infer"))
	f.ok(at, "")
	f.finish()
}

// TestAgentsOffered checks which turns can start sub-agents.
func TestAgentsOffered(t *testing.T) {
	t.Parallel()
	call := agentCall("a", "x")
	e := newEnv(t, asks("", call), says("Done."), asks("", call), says("Done."), asks("", call), says("Done."))
	e.ask(request(question, inSession+`,"agents":true`)) // without a turn
	e.follow(question, "").finish()
	e.follow(question, `,"agents":true`).finish()
	for i, want := range []string{"invalid_input: Unknown skill 'agent'", "invalid_input: Unknown skill 'agent'", "tool_error: The sub-agent has no result."} {
		offered := string(e.rtr.asked()[2*i].Tools)
		zinotest.Equal(t, fmt.Sprint("turn ", i), strings.Contains(offered, `"enum":["agent","disk","snake"]`), i == 2)
		zinotest.Equal(t, "result", brief(t, toolResults(t, e.rtr.asked()[2*i+1])[0]), want)
	}
	preview := rpctest.Dial(t, e.path).Ask(`{"type":"tools","agents":true}`)
	zinotest.Contains(t, "tools of a preview", preview, `"enum":["agent","disk","snake"]`)
	list := offered(e.cat.Snapshot(), kit{agents: true})
	task := list[len(list)-1]
	without := offered(e.cat.Snapshot(), kit{})
	if n := len(task.Parameters) + len(task.Description) - len(without[len(without)-1].Parameters) - len(without[len(without)-1].Description); n > 320 {
		t.Errorf("the skill agent takes %d bytes of each request", n)
	}
}

// TestReadOnly checks that a turn that may only read has no other tool.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "bash", `{"command":"x"}`), nativeBash("b", "x"), native("c", "task", `{"skill":"disk","request":"x"}`), agentCall("d", "x"),
		native("e", "remember", `{"text":"x"}`), native("f", "job", `{"action":"stop","job":"`+job+`"}`), native("g", "todo", `{"items":[]}`),
		native("h", "job", `{"action":"output","job":"`+job+`"}`), native("i", "recall", `{"query":"x"}`)), says("Done.")).withMemory()
	j := &jobs{}
	e.excServes(j.register)
	e.follow(question, `,"read_only":true,"agents":true`).finish()
	unknown := func(name string) string {
		return fmt.Sprintf("unknown_tool: There is no tool '%s'. There are: read, job, recall.", name)
	}
	results := toolResults(t, e.rtr.asked()[1])
	for i, want := range []string{unknown("bash"), unknown("execute_bash"), unknown("task"), unknown("task"), unknown("remember"), "invalid_input: action must be output", unknown("todo"), "new\n", "No memories found."} {
		zinotest.Equal(t, fmt.Sprint("result ", i), brief(t, results[i]), want)
	}
	zinotest.Equal(t, "stopped jobs", len(j.stop.All()), 0)
	var offered []struct{ Function struct{ Name string } }
	zinotest.Must(t, json.Unmarshal(e.rtr.asked()[0].Tools, &offered))
	zinotest.Equal(t, "offered", fmt.Sprint(offered), "[{{read}} {{job}} {{recall}}]")
}

// TestPropose checks that remember proposes memories if that is configured, also in a
// turn that may only read, and side by side with other reads.
func TestPropose(t *testing.T) {
	t.Parallel()
	e := startEnv(t, func(cfg *config.Config) { cfg.Mem.Remember = "propose" }, asks("", native("a", "remember", `{"text":"x","tag":"t"}`)), says("Done.")).withMemory()
	e.follow(question, `,"read_only":true`).finish()
	result := toolResults(t, e.rtr.asked()[1])[0]
	zinotest.Equal(t, "result", result, `{"ok":true,"data":{"proposed":1}}`)
	kept := e.mem.kept()
	if len(kept) != 1 || !kept[0].Proposed || kept[0].Tag != "t" || kept[0].SessionID == "" {
		t.Errorf("stored %+v", kept)
	}
	for _, tool := range offered(e.cat.Snapshot(), e.service.kitOf()) {
		if tool.Name == "remember" && !tool.reads {
			t.Error("remember does not count as a read")
		}
	}
}
