package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestFollowContinued checks that a follower of a turn is told where it went on, also if
// it follows that turn alone.
func TestFollowContinued(t *testing.T) {
	e := newResumeEnv(t)
	e.write(
		"s-1", openTurn, openAsked, `{"type":"turn","turn":"t-1","session_id":"s-1","state":"continued","to":"s-2","to_turn":"t-9"}`,
		strings.Replace(openOther, "queued", "running", 1),
	)
	for _, more := range []string{`,"from":0`, ``} {
		packets := e.follow(`,"turn":"t-1"` + more)
		equalLists(t, "packets", packets[len(packets)-2:], []string{
			`{"type":"continued","session_id":"s-2","turn":"t-9","from_session_id":"s-1","replay":true}`,
			`{"type":"followed","session_id":"s-1","turn":"t-1","state":"continued"}`,
		})
	}
}

// inferred is the usage of an inference.
func inferred(in, out, window int) string {
	return fmt.Sprintf(`{"type":"usage","input_tokens":%d,"output_tokens":%d,"context_window":%d}`, in, out, window)
}

// calls is a run whose first inference reads a file, with a result of size bytes. It
// returns the answer to the checkpoint infer behind it.
func calls(r *run, usage string, size int) (proto.Proceed, error) {
	step := max(r.FirstStep, 1)
	err := r.send(`{"type":"tool_requested","id":"b","name":"read","input":{"path":"y"}}`, usage)
	if err == nil {
		_, err = r.at(step, proto.PointCalls, "b")
	}
	if err == nil {
		err = r.send(`{"type":"tool_finished","id":"b","name":"read","ok":true,"result":"` + strings.Repeat("x", size-2) + `","duration_ms":2}`)
	}
	if err != nil {
		return proto.Proceed{}, err
	}
	return r.at(step, proto.PointInfer)
}

// full is a run that the daemon stops because the context is nearly full.
func full(r *run) (proto.Text, error) {
	p, err := calls(r, inferred(500, 1, 1000), 2)
	if err == nil && p.Stop != proto.StopContext {
		r.t.Errorf("proceed %+v", p)
	}
	return proto.Text{StopReason: p.Stop, Iterations: new(1)}, err
}

// newContinueEnv is newResumeEnv with continuation at half of the context.
func newContinueEnv(t *testing.T, scripts ...runScript) *resumeEnv {
	e := newResumeEnv(t, scripts...)
	e.cfg.Agent.ContinueAt, e.cfg.Daemon.DataDir = 0.5, filepath.Join(zinotest.Dir(t), "daemon")
	return e
}

// TestContinueAt checks when a turn goes on in a new session.
func TestContinueAt(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    float64
		usage string
		size  int
		want  string
	}{
		{"over it", 0.5, inferred(490, 11, 1000), 3, proto.StopContext},
		{"at it", 0.5, inferred(490, 10, 1000), 3, ""},
		{"with the results", 0.5, inferred(390, 10, 1000), 404, proto.StopContext},
		{"with fewer results", 0.5, inferred(390, 10, 1000), 403, ""},
		{"off", 0, inferred(2000, 10, 1000), 3, ""},
		{"unknown", 0.5, inferred(1_000_000, 10, 0), 3, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newContinueEnv(t, func(r *run) (proto.Text, error) {
				p, err := calls(r, c.usage, c.size)
				zinotest.Equal(t, "stop", p.Stop, c.want)
				r.FirstStep = 2
				if err != nil || p.Stop != "" {
					return proto.Text{StopReason: p.Stop}, err
				}
				return answer(r)
			}, answer)
			e.cfg.Agent.ContinueAt = c.at
			turn := e.ended("s-1", e.startTurn("hi", "").Turn)
			zinotest.Equal(t, "continued", turn.State == proto.TurnContinued, c.want != "")
			zinotest.Eventually(t, "the end of all turns", func() bool { return !e.service.openTurns() && e.idle() })
		})
	}
}

// TestContinue checks what goes on in the new session, and what stays in the old one.
func TestContinue(t *testing.T) {
	var e *resumeEnv
	e = newContinueEnv(t, func(r *run) (proto.Text, error) {
		err := r.send(`{"type":"todo","items":[{"text":"look","status":"done"},{"text":"mend","status":"active"}]}`)
		if _, said := e.say(`"text":"early"`); err != nil || said != nil {
			t.Error(err, said)
		}
		p, err := calls(r, inferred(1, 1, 1000), 2)
		zinotest.Equal(t, "says", fmt.Sprint(len(p.Says), p.Stop, err), "1<nil>")
		for _, more := range []string{`"text":"late"`, `"text":"behind","mode":"queue"`} {
			if _, said := e.say(more); said != nil {
				t.Error(said)
			}
		}
		e.startTurn("another", "")
		r.FirstStep = 2
		return full(r)
	}, answer, answer, answer)
	e.cfg.Daemon.RunningMax = 1
	old := e.startTurn("the <first>\\nmessage", `,"root":"/r","model":"m","effort":"low","on_limit":"park","sandbox":"read-only","system_prompt":"S","env":{"A":"b"},"cwd":"/c","recall":false`)
	packets := e.follow(`,"turn":"` + old.Turn + `"`)
	end := e.ended("s-1", old.Turn)
	zinotest.Equal(t, "state", end.State, proto.TurnContinued)
	id, turn := end.To, end.ToTurn
	equalLists(t, "the last packets", packets[len(packets)-2:], []string{
		`{"type":"continued","session_id":"` + id + `","turn":"t","from_session_id":"s-1"}`,
		`{"type":"followed","session_id":"s-1","turn":"t","state":"continued"}`,
	})
	next := e.ended(id, turn)
	zinotest.Eventually(t, "the end of all turns", func() bool { return !e.service.openTurns() && e.idle() })
	zinotest.Equal(t, "state", next.State, proto.TurnDone)

	req := e.requests.All()[1]
	zinotest.Equal(t, "run", values(req.SessionID == id, req.Turn == turn, req.Root, req.Model, req.Effort, req.OnLimit, req.Sandbox, req.Env, req.Cwd, req.FirstStep),
		"true true /r m low park read-only map[A:b] /c 0")
	log := e.read(id)
	zinotest.Equal(t, "root", log.Meta.Root, "/r")
	zinotest.Equal(t, "recall", values(*log.Meta.UID == os.Geteuid(), *log.Meta.Recall), "true false")
	zinotest.Equal(t, "continues", *log.Meta.Continues, proto.LogContinues{SessionID: "s-1", Turn: old.Turn, Until: e.offset("s-1", `"state":"continued"`)})
	file := e.file(id)
	var message proto.LogMessage
	zinotest.Must(t, json.Unmarshal([]byte(file[2]), &message))
	bundle, behind, _ := strings.Cut(message.Text, "\n## Messages of the user\n")
	if !strings.HasPrefix(bundle, "# Handoff\n\n## Goal\n\n```text\nthe <first>\nmessage\n```\n\n## Starter prompt\n") {
		t.Errorf("the handoff is\n%s", bundle)
	}
	zinotest.Equal(t, "behind the handoff", behind, `
The turn goes on here because the model's context was nearly full. The user's messages in it so far, word for word:

`+"```text\nthe <first>\nmessage\n```\n\n```text\nearly\n```"+`

## Open todo items

Your list, which the tool todo replaces:

- [ ] mend (active)

## New messages of the user

These came meanwhile, and are not answered yet:

`+"```text\nlate\n```\n")
	for i, line := range file {
		file[i] = sayID.ReplaceAllString(strings.ReplaceAll(line, id, "ID"), `"s"`)
	}
	answered := []string{
		`{"type":"message","role":"assistant","text":"all done","turn":"t","step":1}`,
		`{"type":"usage","input_tokens":7,"output_tokens":3,"turn":"t","step":1}`,
		`{"type":"turn","turn":"t","session_id":"ID","state":"done","stop_reason":"stop","iterations":1,"usage":{"input_tokens":7,"output_tokens":3}}`,
	}
	equalLists(t, "the new session", file, slices.Concat(file[:1], []string{
		`{"type":"turn","turn":"t","session_id":"ID","state":"running","lifetime":"persistent"}`,
		file[2],
		`{"type":"title","text":"the <first> message"}`,
		`{"type":"turn","turn":"t","session_id":"ID","state":"queued","message":"behind","lifetime":"persistent","say":"s"}`,
	}, answered, []string{
		`{"type":"turn","turn":"t","session_id":"ID","state":"running","lifetime":"persistent","say":"s"}`,
		`{"type":"message","role":"user","text":"behind","turn":"t","say":"s","via":"queue"}`,
	}, answered))
	equalLists(t, "the end of the old session", e.file("s-1")[15:19], []string{
		`{"type":"turn","turn":"t","session_id":"s-1","state":"continued","to":"` + id + `","to_turn":"t"}`,
		`{"type":"turn","turn":"t","session_id":"s-1","state":"interrupted","reason":"withdrawn"}`,
		`{"type":"turn","turn":"t","session_id":"s-1","state":"running","lifetime":"persistent"}`,
		`{"type":"message","role":"user","text":"another","turn":"t"}`,
	})
	var left []string
	zinotest.Eventually(t, "no environment is left", func() bool {
		left, _ = filepath.Glob(filepath.Join(e.cfg.Daemon.DataDir, "env", "*"))
		return len(left) == 0
	})
}

// offset returns the offset of the first event of a session with a text.
func (e *resumeEnv) offset(id, text string) int64 {
	e.t.Helper()
	file := zinotest.Read(e.t, filepath.Join(e.sessions, id+".jsonl"))
	return int64(strings.LastIndex(file[:strings.Index(file, text)], "\n") + 1)
}

// TestContinueInARow checks that the user's messages go along through all sessions, that a
// handoff does not, and how many sessions there can be.
func TestContinueInARow(t *testing.T) {
	e := newContinueEnv(t, full, full, full)
	e.cfg.Agent.ContinueMax = 2
	id, turn := "s-1", e.startTurn("the first message", "").Turn
	for range 2 {
		end := e.ended(id, turn)
		id, turn = end.To, end.ToTurn
	}
	zinotest.Equal(t, "state", e.ended(id, turn).State, proto.TurnError)
	file := e.file(id)
	zinotest.Equal(t, "handoffs", strings.Count(file[2], "## Messages of the user"), 1)
	zinotest.Equal(t, "messages", strings.Count(file[2], "```text\\nthe first message\\n```"), 1)
	if want := `"message":"The model's context is nearly full, and the turn was continued 2 times in a row. Go on in a new session: zino handoff --from-session ` + id +
		` --goal \"…\".","kind":"session","code":"too_large"`; !strings.Contains(file[len(file)-2], want) {
		t.Errorf("the error is %s", file[len(file)-2])
	}

	// A message of a person begins another row. The sessions before may be gone.
	zinotest.Must(t, os.Remove(filepath.Join(e.sessions, "s-1.jsonl")))
	e.scripts <- full
	e.scripts <- answer
	var started proto.TurnStarted
	if err := e.call(`{"type":"turn_start","session_id":"`+id+`","message":"go on"}`, &started); err != nil {
		t.Fatal(err)
	}
	end := e.ended(id, started.Turn)
	zinotest.Equal(t, "state", end.State, proto.TurnContinued)
	e.ended(end.To, end.ToTurn)
	zinotest.Eventually(t, "the end of all turns", e.idle)
}

// TestContinueWithModel checks that a model drafts the handoff, and what happens to a
// turn that is canceled, or whose daemon stops, meanwhile.
func TestContinueWithModel(t *testing.T) {
	drafting := make(chan struct{}, 1)
	release := make(chan struct{})
	e := newContinueEnv(t, full, full, answer)
	zinotest.Must(t, os.Remove(e.cfg.Rtr.Socket))
	rpctest.New(t, "rtr", e.cfg.Rtr.Socket, func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
			zinotest.Equal(t, "model", req.Model, "m")
			select {
			case drafting <- struct{}{}:
			default: // the one after the stop
			}
			if err := rpctest.Until(ctx, release); err != nil {
				return proto.Text{}, err
			}
			return say(out, []string{`{"starter_prompt":"Go on with hi."}`})
		})
	})
	canceled := e.startTurn("hi", `,"model":"m"`)
	zinotest.Receive(t, "the draft", drafting)
	if err := e.call(`{"type":"turn_cancel","session_id":"s-1"}`, &canceled); err != nil {
		t.Fatal(err)
	}
	zinotest.Equal(t, "state", canceled.State, proto.TurnInterrupted)

	turn := e.startTurn("hi", `,"model":"m"`).Turn
	zinotest.Receive(t, "the draft", drafting)
	ctx, cancel := context.WithTimeout(t.Context(), stopMargin+time.Millisecond)
	defer cancel()
	e.service.parkAll(ctx)
	parked := e.read("s-1").Turn(turn)
	zinotest.Equal(t, "parked", values(parked.State, parked.Reason), "parked restart")
	zinotest.Must(t, e.service.Close())

	close(release)
	next := New(e.cfg, e.log.Logger())
	t.Cleanup(func() { zinotest.Must(t, next.Close()) })
	next.Resume()
	end := e.ended("s-1", turn)
	zinotest.Equal(t, "state", end.State, proto.TurnContinued)
	e.ended(end.To, end.ToTurn)
	if message := e.file(end.To)[2]; !strings.Contains(message, `Go on with hi.`) {
		t.Errorf("the message is %s", message)
	}
	zinotest.Equal(t, "runs", len(e.requests.All()), 3) // none of the parked turn
}

// TestContinueFails checks that a turn whose new session cannot begin ends with the
// error, and that its undelivered message goes back to the user.
func TestContinueFails(t *testing.T) {
	for name, cut := range map[string]func(*resumeEnv, *proxy){
		"sys": func(_ *resumeEnv, sys *proxy) { sys.cut() },
		"environment": func(e *resumeEnv, _ *proxy) {
			zinotest.Must(e.t, os.RemoveAll(e.cfg.Daemon.DataDir))
			zinotest.Write(e.t, e.cfg.Daemon.DataDir, "not a directory")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var e *resumeEnv
			var sys *proxy
			e = newContinueEnv(t, func(r *run) (proto.Text, error) {
				for _, more := range []string{`"text":"late"`, `"text":"behind","mode":"queue"`} {
					if _, said := e.say(more); said != nil {
						t.Error(said)
					}
				}
				p, err := full(r)
				cut(e, sys)
				return p, err
			})
			sys = newProxy(t, e.cfg.Sys.Socket, nil)
			started := e.startTurn("hi", `,"cwd":"/c"`)
			turn := e.ended("s-1", started.Turn)
			zinotest.Equal(t, "state", turn.State, proto.TurnError)
			packets := e.follow(`,"turn":"` + started.Turn + `"`)
			if ended := packets[len(packets)-2]; !strings.Contains(ended, `"text":"late"`) || !strings.Contains(ended, `"text":"behind"`) {
				t.Errorf("the end is %s", ended)
			}
			zinotest.Eventually(t, "the session leaves the memory", e.idle)
			files, err := filepath.Glob(filepath.Join(e.sessions, "*.jsonl"))
			zinotest.Equal(t, "sessions", values(len(files), err), "1 <nil>")
		})
	}
}

// TestContinueCrashed checks what a daemon does about a turn with a full context of one
// that was killed: before, in and behind the first append to the new session.
func TestContinueCrashed(t *testing.T) {
	next, nextTurn := continuationIDs("s-1", "t-1", 0)
	other, otherTurn := continuationIDs("s-1", "t-1", 1)
	begun := `{"type":"turn","turn":"` + nextTurn + `","session_id":"` + next + `","state":"running","lifetime":"persistent","request":{"root":"/r"}}`
	asked := `{"type":"message","role":"user","text":"# Handoff","turn":"` + nextTurn + `"}`
	moved := strings.Replace(openNext, `"s-1"`, `"`+next+`"`, 1)
	for _, c := range []struct {
		name     string
		new      []string // lines of the new session
		to, turn string
		runs     []string // sessions of the runs
		behind   string   // state of the turn of turn_say that was queued in the old session
	}{
		{"before", nil, next, nextTurn, []string{next, "s-1", next}, proto.TurnInterrupted},
		{"in", []string{begun}, other, otherTurn, []string{other, "s-1", other}, proto.TurnInterrupted},
		{"behind", []string{begun, asked, moved}, next, nextTurn, []string{next, "s-1", next}, proto.TurnInterrupted},
		{"behind, and queued since", []string{begun, asked}, next, nextTurn, []string{next, "s-1", "s-1"}, proto.TurnDone},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newContinueEnv(t, answer, answer, answer)
			if c.new != nil {
				e.write(next, c.new...)
			}
			open := openUsage
			open = strings.Replace(open, `"input_tokens":10`, `"input_tokens":600,"context_window":1000`, 1)
			e.write("s-1", openTurn, openAsked, openCallA, open, openResult, openNext, openOther)
			e.service.Resume()
			turn := e.ended("s-1", "t-1")
			zinotest.Equal(t, "end", values(turn.State, turn.To, turn.ToTurn), values(proto.TurnContinued, c.to, c.turn))
			zinotest.Equal(t, "the new turn", e.ended(c.to, c.turn).State, proto.TurnDone)
			zinotest.Equal(t, "queued by turn_start", e.ended("s-1", "t-3").State, proto.TurnDone)
			zinotest.Equal(t, "queued by turn_say", e.ended("s-1", "t-2").State, c.behind)
			zinotest.Eventually(t, "the end of all turns", func() bool { return !e.service.openTurns() && e.idle() })
			var runs []string
			for _, r := range e.requests.All() {
				runs = append(runs, r.SessionID)
			}
			slices.Sort(runs)
			slices.Sort(c.runs)
			equalLists(t, "runs", runs, c.runs)
			zinotest.Equal(t, "starts", strings.Count(strings.Join(e.file(c.to), "\n"), `"# Handoff`), 1)
		})
	}
}

// TestContinueFork checks that the first turn of a fork of a new session is one that a
// person started.
func TestContinueFork(t *testing.T) {
	e := newContinueEnv(t, full, answer)
	zinotest.Write(t, filepath.Join(e.sessions, "s-1.jsonl"),
		`{"type":"meta","schema_version":1,"ts":"2026-11-22T10:00:00Z","root":"/r","continues":{"session_id":"s-0","turn":"t-1","until":7}}`+"\n")
	turn := e.ended("s-1", e.startTurn("by a person", "").Turn)
	e.ended(turn.To, turn.ToTurn)
	if message := e.file(turn.To)[2]; !strings.Contains(message, "```text\\nby a person\\n```") {
		t.Errorf("the message is %s", message)
	}
}
