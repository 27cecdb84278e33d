package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

const (
	numberSchema = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	schemaTurn   = `{"type":"turn","turn":"t-1","session_id":"s-1","state":"running","lifetime":"persistent","by":{"uid":7},"request":{"root":"/r","output_schema":` + numberSchema + `}}`
	schemaWrong  = `{"type":"message","role":"assistant","text":"two","turn":"t-1","step":1}`
	schemaAgain  = `{"type":"message","role":"user","text":"again","turn":"t-1","via":"schema"}`
)

// inferences is a run with an inference for each text; a text behind "lost: " is the last one
// before agr goes away.
func inferences(texts ...string) runScript {
	return func(r *run) (proto.Text, error) {
		step := max(r.FirstStep, 1)
		for i, text := range texts {
			zinotest.Equal(r.t, "the schema of run", string(r.OutputSchema), numberSchema)
			text, gone := strings.CutPrefix(text, "lost: ")
			if err := r.out.Event(proto.TypeAssistantFinal, proto.AssistantFinal{Text: text}); err != nil {
				return proto.Text{}, err
			}
			p, err := r.at(step+i, proto.PointEnd)
			if err != nil {
				return proto.Text{}, err
			}
			if gone {
				return proto.Text{}, &proto.Error{Code: proto.CodeUnavailable, Kind: proto.ErrorKindTransport, Message: "rtr hung up"}
			}
			if again := i+1 < len(texts); again != (len(p.Says) == 1) {
				return proto.Text{}, fmt.Errorf("asked again with %d messages", len(p.Says))
			}
		}
		return proto.Text{Content: texts[len(texts)-1], StopReason: "stop"}, nil
	}
}

// TestSchemaResumed checks that a turn with a schema goes on with it after a crash, and
// that the attempts before count.
func TestSchemaResumed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		log   []string
		runs  []runScript
		state string
		end   string
	}{
		{"in the first attempt", nil, []runScript{inferences("one", `{"n":1}`)}, proto.TurnDone, `"structured":{"n":1}`},
		{"after one", []string{schemaWrong, schemaAgain}, []runScript{inferences("two", `{"n":2}`)}, proto.TurnDone, `"structured":{"n":2}`},
		{"after two", []string{schemaWrong, schemaAgain, strings.Replace(schemaWrong, `"step":1`, `"step":2`, 1), schemaAgain}, []runScript{inferences("three")}, proto.TurnError, `"reason":"internal"`},
		{"agr lost behind the question", nil, []runScript{inferences("lost: one"), inferences("two", `{"n":3}`)}, proto.TurnDone, `"structured":{"n":3}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newResumeEnv(t, tt.runs...)
			e.write("s-1", append([]string{schemaTurn, openAsked}, tt.log...)...)
			e.service.Resume()
			zinotest.Equal(t, "state", e.ended("s-1", "t-1").State, tt.state)
			lines := e.file("s-1")
			zinotest.Contains(t, "the end", lines[len(lines)-1], tt.end)
			if tt.state == proto.TurnError {
				zinotest.Contains(t, "the error", lines[len(lines)-2], `"kind":"schema"`, "after 3 attempts: not a JSON value")
			}
		})
	}
}

// TestSchemaRefused checks requests whose schema cannot be used.
func TestSchemaRefused(t *testing.T) {
	e := newResumeEnv(t)
	daemon := rpctest.Client(t, "daemon", e.cfg.Daemon.Socket)
	for _, schema := range []string{`[]`, `{"$ref":"#"}`, `{"pattern":"("}`} {
		_, err := rpc.Call(t.Context(), daemon, proto.DaemonTurnStart, proto.TurnStart{SessionID: "s-1", Message: "x", OutputSchema: proto.Raw(schema)})
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeInvalid || e.Kind != proto.ErrorKindSchema {
			t.Errorf("%s: %v", schema, err)
		}
	}
}
