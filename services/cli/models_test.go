package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// modelsDaemon starts a daemon with a router that lists the models of answer.
func modelsDaemon(t *testing.T, answer func(proto.ModelsRequest) (proto.ModelList, error)) (socket string) {
	t.Helper()
	return newDaemon(t, func(s *rpc.Server) {
		rpc.Handle(s, proto.RtrModels, func(_ context.Context, req proto.ModelsRequest) (proto.ModelList, error) { return answer(req) })
	})
}

func TestModels(t *testing.T) {
	requests := make(chan string, 10) // requested providers
	socket := modelsDaemon(t, func(req proto.ModelsRequest) (proto.ModelList, error) {
		requests <- req.Provider
		switch req.Provider {
		case "gemini":
			return proto.ModelList{}, &proto.Error{Code: proto.CodeUnavailable, Message: "cannot list the models of gemini"}
		case "ollama":
			return proto.ModelList{Models: []proto.Model{}}, nil
		}
		return proto.ModelList{
			Models: []proto.Model{
				{Name: "claude-sonnet-5-5", Provider: "anthropic", Context: 200000, Efforts: []string{"low", "high"}},
				{Name: "odd\x1b[31m", Provider: "openai"},
			},
			Problems: []string{"openrouter is\naway"},
		}, nil
	})
	const warned = "Warning: openrouter is\naway\n"
	for _, test := range []struct {
		args, out, stderr, of string
		status                int
	}{
		{"", "MODEL              PROVIDER   CONTEXT  EFFORT\nclaude-sonnet-5-5  anthropic  200000   low high\nodd^[[31m          openai     -        -\n", warned, "", 0},
		{"SONNET 5-5 --provider anthropic", "MODEL              PROVIDER   CONTEXT  EFFORT\nclaude-sonnet-5-5  anthropic  200000   low high\n", warned, "anthropic", 0},
		{"sonnet gpt", "", warned + "Error [usage]: no model's name has \"sonnet gpt\"; zino models lists all\n", "", 1},
		{"--provider ollama", "", "No models found.\n", "ollama", 0},
		{"--provider gemini", "", "Error [internal]: cannot list the models of gemini\n", "gemini", 1},
	} {
		status, out, stderr := run(t, newWorld(t).command(append([]string{"--socket", socket, "models"}, strings.Fields(test.args)...)...), "")
		asked := <-requests
		if status != test.status || out != test.out || !strings.HasSuffix(stderr, test.stderr) || asked != test.of {
			t.Errorf("%s: status %d, asked of %q, printed\n%sstderr %q", test.args, status, asked, out, stderr)
		}
	}
	status, out, _ := run(t, newWorld(t).command("--socket", socket, "models", "--json"), "")
	var first proto.Model
	if err := json.Unmarshal([]byte(strings.SplitAfter(out, "\n")[0]), &first); err != nil || status != 0 || first.Context != 200000 || strings.Count(out, "\n") != 2 {
		t.Errorf("status %d, stdout %q: %v", status, out, err)
	}
}

// TestModelCompletion checks that --model is completed by a running daemon.
func TestModelCompletion(t *testing.T) {
	socket := modelsDaemon(t, func(req proto.ModelsRequest) (proto.ModelList, error) {
		return proto.ModelList{Models: []proto.Model{{Name: "gpt-6-luna", Provider: "openai"}, {Name: "claude-x", Provider: "anthropic"}, {Name: "gpt-6-luna", Provider: "openrouter"}}}, nil
	})
	w := newWorld(t)
	w.daemon(t, socket)
	status, out, _ := run(t, w.command("__complete", "exec", "--model", "g"), "")
	if want := "gpt-6-luna\topenai\n:36\n"; status != 0 || out != want {
		t.Errorf("status %d, stdout %q, want %q", status, out, want)
	}
}
