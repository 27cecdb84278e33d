package agr

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestLoops checks the note, the notice and the end of a turn that repeats a call.
func TestLoops(t *testing.T) {
	t.Parallel()
	const (
		note   = `,"note":"This exact call has now returned the same result %d times."}`
		notice = `{"type":"notice","kind":"loop","text":"bash was called %d times with the same input and result."}`
		end    = `{"type":"error","message":"bash was called %d times with the same input and result; the turn was stopped","code":"loop","service":"agr"}`
	)
	for _, c := range []struct {
		name       string
		warn, stop int
		ran        int // calls, of 12
	}{{"default", 5, 10, 10}, {"no warning", 0, 3, 3}, {"no stop", 2, 0, 12}, {"off", 0, 0, 12}, {"at once", 4, 4, 4}} {
		t.Run(c.name, func(t *testing.T) {
			var script []reply
			for i := range 12 {
				script = append(script, asks("", native(fmt.Sprint(i), "bash", `{"command":"x"}`)))
			}
			e := startEnv(t, func(cfg *config.Config) { cfg.Agr.LoopWarn, cfg.Agr.LoopStop = c.warn, c.stop }, append(script, says("Done."))...)
			packets := e.watch(request(question, inSession+withEvents))
			zinotest.Equal(t, "calls", len(e.exc.called()), c.ran)
			last := `{"type":"done","full_text":"Done.","iterations":13}`
			if c.stop > 0 {
				last = fmt.Sprintf(end, c.stop)
			}
			zinotest.Equal(t, "terminal packet", packets[len(packets)-1], last)
			for i := range c.ran {
				want := string(said(""))
				if i+1 == c.warn {
					want = strings.TrimSuffix(want, "}") + fmt.Sprintf(note, c.warn)
				}
				at := slices.Index(packets, finished(fmt.Sprint(i), "bash", want))
				if at < 0 {
					t.Errorf("call %d has another result: %q", i+1, packets)
					continue
				}
				if warned := packets[at+1] == fmt.Sprintf(notice, i+1); warned != (i+1 == c.warn && c.warn != c.stop) {
					t.Errorf("call %d is followed by %s", i+1, packets[at+1])
				}
			}
			if c.warn > 0 && c.warn < c.ran { // the model reads the note
				results := toolResults(t, e.rtr.asked()[c.warn])
				zinotest.Contains(t, "result", results[c.warn-1], fmt.Sprintf(note, c.warn))
			}
		})
	}
}

// TestLoopsCompared checks which calls are equal.
func TestLoopsCompared(t *testing.T) {
	t.Parallel()
	first := call{name: "bash", input: proto.Raw(`{"command":"x"}`)}
	const out = `{"ok":true,"data":{"stdout":"a","duration_ms":17,"job":"j-k3v9q2mx"}}`
	for _, c := range []struct {
		name     string
		call     call
		envelope string
		want     int
	}{
		{"equal", first, out, 2},
		{"another duration and job", first, `{"ok":true,"data":{"stdout":"a","duration_ms":4,"job":"j-abcdefgh"}}`, 2},
		{"a job in the text", first, strings.Replace(out, `"a"`, `"job j-abcdefgh"`, 1), 1},
		{"another output", first, strings.Replace(out, `"a"`, `"b"`, 1), 1},
		{"another input", call{name: "bash", input: proto.Raw(`{"command":"y"}`)}, out, 1},
		{"another tool", call{name: "read", input: first.input}, out, 1},
	} {
		l := &loops{}
		l.count(&first, proto.Raw(out))
		zinotest.Equal(t, c.name, l.count(&c.call, proto.Raw(c.envelope)), c.want)
	}
	l := &loops{}
	for i := range 100 { // only the last 40 count, in between are others
		n := l.count(&first, proto.Raw(out))
		l.count(&call{name: "other"}, fmt.Appendf(nil, `{"ok":true,"data":{"n":%d}}`, i))
		zinotest.Equal(t, "equal calls", n, min(i+1, loopWindow/2))
	}
}

// TestLoopSideBySide checks that equal calls of one batch count, and that the turn
// ends only after all of them have ended.
func TestLoopSideBySide(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range 12 {
		list = append(list, native(fmt.Sprint(i), "read", `{"path":"x"}`))
	}
	e := newEnv(t, asks("", list...), says("never"))
	e.exc.onCall(func(context.Context, proto.Call, *rpc.Out) (proto.CallResult, error) {
		return proto.CallResult{Result: proto.Raw(" {\"ok\":true,\"data\":{}}\n")}, nil
	})
	packets := e.watch(request(question, inSession+withEvents))
	zinotest.Contains(t, "terminal packet", packets[len(packets)-1], "read was called 10 times with the same input and result; the turn was stopped")
	ended, noted := 0, 0
	for _, p := range packets {
		var finished struct {
			Type   string
			Result struct {
				OK   bool
				Note string
			}
		}
		zinotest.Must(t, json.Unmarshal([]byte(p), &finished))
		if finished.Type == proto.TypeToolFinished && finished.Result.OK {
			ended++
		}
		if finished.Result.Note != "" {
			noted++
		}
	}
	if ended != 12 || noted != 1 {
		t.Errorf("%d calls ended, %d have a note", ended, noted)
	}
	e.checkRan(1)
}

// FuzzNote checks that an envelope with a note is an envelope with the same ok, and
// that counting does not change it.
func FuzzNote(f *testing.F) {
	for _, seed := range []string{`{"ok":true}`, " {\"ok\":false,\"error\":{\"code\":\"x\"} }\n", `{"ok":true,"data":{"job":"j-k3v9q2mx","duration_ms":5},"note":"x"}`, `{"ok":true,"ok":false}`} {
		f.Add([]byte(seed), "five \"times\"\xff")
	}
	f.Fuzz(func(t *testing.T, raw []byte, note string) {
		if !isEnvelope(raw) {
			return
		}
		before := string(raw)
		(&loops{}).count(&call{name: "bash"}, raw)
		noted := withMember(raw, "note", note)
		if !isEnvelope(noted) || succeeded(noted) != succeeded(raw) || string(raw) != before {
			t.Errorf("%q becomes %q", before, noted)
		}
	})
}
