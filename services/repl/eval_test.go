package repl

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"zino/pkg/config"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestResult: a result counts once, and only from the page that has the job.
func TestResult(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f, other := b.silentPage(proto.Attach{Name: "a"}), b.silentPage(proto.Attach{Name: "b"})
	b.add(f.Attached().File, js("1"))
	job := f.job(0)
	a, o := f.Attached(), other.Attached()
	for name, r := range map[string]proto.JobResult{
		"of another page": {ID: o.ID, Nonce: o.Nonce, Job: job.Job, OK: true},
		"a wrong nonce":   {ID: a.ID, Nonce: o.Nonce, Job: job.Job, OK: true},
		"no nonce":        {ID: a.ID, Job: job.Job, OK: true},
		"a wrong id":      {ID: "ffff", Nonce: a.Nonce, Job: job.Job, OK: true},
		"a wrong job":     {ID: a.ID, Nonce: a.Nonce, Job: job.Job + "0", OK: true},
		"no job":          {ID: a.ID, Nonce: a.Nonce, OK: true},
	} {
		if _, err := b.Result(t.Context(), r); !errors.Is(err, proto.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Result(t.Context(), proto.JobResult{ID: a.ID, Nonce: a.Nonce, Job: job.Job, Kind: "html"}); !errors.Is(err, proto.ErrInvalid) {
		t.Errorf("a wrong kind: %v", err)
	}
	if _, err := b.Started(t.Context(), proto.JobStarted{ID: a.ID, Nonce: a.Nonce, Job: job.Job}); err != nil {
		t.Errorf("started: %v", err)
	}
	if _, err := b.Started(t.Context(), proto.JobStarted{ID: a.ID, Nonce: a.Nonce, Job: "x"}); !errors.Is(err, proto.ErrUnknown) {
		t.Errorf("started, a wrong job: %v", err)
	}
	must(t, f.answer(job.Job, "41"))
	zinotest.Error(t, f.answer(job.Job, "42"), proto.ErrUnknown)
	if text := b.settled(a.File, 1); !strings.Contains(text, fence+"JSON\n41\n"+fence+"\n") || strings.Contains(text, "\n42\n") {
		t.Errorf("the file: %s", text)
	}
}

// TestError: an exception is the reply, and the next block runs.
func TestError(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a"})
	a := f.Attached()
	b.add(a.File, js("throw 1")+"and\n\n"+js("2"))
	_, err := b.Result(t.Context(), proto.JobResult{ID: a.ID, Nonce: a.Nonce, Job: f.job(0).Job, Error: "Error: one\n  at x"})
	must(t, err)
	must(t, f.answer(f.job(1).Job, "22"))
	text := b.settled(a.File, 2)
	zinotest.Contains(t, "the text", text, "(**ERROR** after ", fence+"Error\nError: one\n  at x\n"+fence+"\n", fence+"JSON\n22\n", "\nand\n")
}

// TestTimeout: a result after the timeout becomes a background note, and is never
// another job's reply.
func TestTimeout(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "", func(c *config.Repl) { c.Timeout = 1.5 })
	f := b.silentPage(proto.Attach{Name: "a"})
	a := f.Attached()
	b.add(a.File, js("first"))
	first := f.job(0)
	if first.TimeoutMS != 1500 || first.Lang != "js" {
		t.Errorf("%+v", first)
	}
	text := b.settled(a.File, 1)
	if !strings.Contains(text, "(**ERROR** after 1500ms)") || !strings.Contains(text, "timeout") {
		t.Errorf("after the timeout: %s", text)
	}
	f.wasCanceled(first.Job)
	must(t, f.answer(first.Job, "111"))
	b.has("debug.md", "state: late")
	r, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: "second", TimeoutMS: 50})
	if err != nil || r.OK || !strings.Contains(r.Error, "timeout") {
		t.Errorf("a request whose time is short: %+v, %v", r, err)
	}
	text = b.has(a.File, "late result", "111")
	if strings.Contains(text, fence+"JSON\n111") {
		t.Errorf("the late answer became a reply: %s", text)
	}
	zinotest.Error(t, f.answer(first.Job, "112"), proto.ErrUnknown)
}

// TestGone: the loss of the page fails its job at once, and a later result is refused,
// also when the page is back.
func TestGone(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a", ID: "1a2b", Nonce: "n1"})
	file := f.Attached().File
	b.add(file, js("1")+js("2"))
	job := f.job(0)
	f.leave()
	text := b.settled(file, 1)
	if !strings.Contains(text, "page closed or reloaded") || !strings.Contains(text, "1 of 2 not run") {
		t.Errorf("the file: %s", text)
	}
	b.has("debug.md", "a-1a2b", "state: gone")
	zinotest.Error(t, f.answer(job.Job, "1"), proto.ErrUnknown)
	again := b.page(proto.Attach{Name: "a", ID: "1a2b", Nonce: "n2"})
	zinotest.Error(t, again.answer(job.Job, "1"), proto.ErrUnknown)
	if got := again.code(); len(got) != 0 {
		t.Errorf("it was given %q", got)
	}
}

// TestAway: text that is written while the page is away is left alone, and runs once
// it is back.
func TestAway(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a", ID: "1a2b"})
	file := f.Attached().File
	f.leave()
	other := b.page(proto.Attach{Name: "b"})
	b.add(file, js("away"))
	before := b.file(file)
	b.add(other.Attached().File, js("here")) // it is notified later, and answered
	b.settled(other.Attached().File, 1)
	if got := b.file(file); got != before {
		t.Errorf("the file became %s", got)
	}
	again := b.page(proto.Attach{Name: "a", ID: "1a2b"})
	b.settled(file, 1)
	if got := again.code(); len(got) != 1 {
		t.Errorf("it ran %q", got)
	}
}

// TestEvents: events are in the file; most of a flood is omitted.
func TestEvents(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	a := f.Attached()
	must(t, f.events())
	must(t, f.events(proto.PageEvent{Type: "console", Level: "log", Message: "ready", TS: "22:52:47.120", Place: "app.js:12"},
		proto.PageEvent{Type: "window.onerror", Message: "x is not defined", Stack: "ReferenceError: x\n  at y", TS: "22:52:48"}))
	b.has(a.File, "background at", fence+"Text console.log 22:52:47.120 app.js:12\nready\n", fence+"Error window.onerror 22:52:48\n", "at y")
	flood := make([]proto.PageEvent, 2*eventsMax)
	for i := range flood {
		flood[i] = proto.PageEvent{Type: "console", Level: "log", Message: strings.Repeat("flood", 100)}
	}
	for range 2 {
		must(t, f.events(flood...))
	}
	b.has(a.File, "more background events omitted")
	if n := len(b.file(a.File)); n > 100_000 {
		t.Errorf("the file has %d bytes", n)
	}
	if _, err := b.Events(t.Context(), proto.PageEvents{ID: a.ID, Nonce: "x", Events: flood[:1]}); !errors.Is(err, proto.ErrUnknown) {
		t.Errorf("a wrong nonce: %v", err)
	}
	f.leave()
	zinotest.Error(t, f.events(flood[0]), proto.ErrUnknown)
}

func TestSource(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]proto.PageEvent{
		"console.warn":       {Type: "console", Level: "warn"},
		"console":            {Type: "console"},
		"unhandledrejection": {Type: "unhandledrejection", Level: "error"},
		"worker 7":           {Type: "console", Level: "log", Source: "worker 7"},
	} {
		if got := captured(e).Type; got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}

// eval runs code in a page; the answer comes on the channel.
func (b *env) eval(req proto.Eval) chan proto.Evaluated {
	answer := make(chan proto.Evaluated, 1)
	go func() {
		r, err := b.Eval(b.t.Context(), req)
		if err != nil {
			b.t.Error(err)
		}
		answer <- r
	}()
	return answer
}

// TestEval: requests of programs wait their turn and are answered with the background
// of their run.
func TestEval(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a"})
	a := f.Attached()
	one := b.eval(proto.Eval{Page: "a", Code: "one", Agent: "robot"})
	two := b.eval(proto.Eval{Page: "a", Code: "two", Agent: "robot"})
	first := f.job(0)
	must(t, f.events(proto.PageEvent{Type: "console", Level: "log", TS: "22:52:48.120", Message: "hello"}))
	if len(f.code()) != 1 {
		t.Errorf("both are out: %q", f.code())
	}
	must(t, f.answer(first.Job, "1"))
	if strings.TrimSpace(first.Code) == "two" { // either may come first
		one, two = two, one
	}
	if r := zinotest.Receive(t, "the first answer", one); valueOf(r) != "1" || len(r.Background) != 1 || r.Background[0] != (proto.PageEvent{Type: "console", Level: "log", Source: "console.log", TS: "22:52:48.120", Message: "hello"}) {
		t.Errorf("the first: %+v", r)
	}
	second := f.job(1)
	flood := make([]proto.PageEvent, 25)
	for i := range flood {
		flood[i] = proto.PageEvent{Type: "console", Level: "log", Message: strconv.Itoa(i)}
	}
	must(t, f.events(flood...))
	must(t, f.answer(second.Job, "2"))
	if r := zinotest.Receive(t, "the second answer", two); valueOf(r) != "2" || len(r.Background) != 10 || r.Omitted != 15 || r.Background[2].Message != "17" {
		t.Errorf("the second: %+v", r)
	}
	text := b.settled(a.File, 2)
	if strings.Count(text, "> **robot** to a-") != 2 || strings.Index(text, "JSON\n1\n") > strings.Index(text, "JSON\n2\n") {
		t.Errorf("the file: %s", text)
	}
}

// TestEvalBackground: the caller gets events as the page sent them. In the file they
// are escaped, and a long one is kept beside it.
func TestEvalBackground(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "", func(cfg *config.Repl) { cfg.BodyMax = 100_000 })
	f := b.silentPage(proto.Attach{Name: "a"})
	a := f.Attached()
	answer := b.eval(proto.Eval{Page: "a", Code: "1"})
	job := f.job(0)
	messages := []string{"\x1b[1mbold", strings.Repeat("x", 90_000), `{"a": "` + strings.Repeat("y", 200_000) + `"}`}
	var events []proto.PageEvent
	for _, m := range messages {
		events = append(events, proto.PageEvent{Type: "console", Level: "log", Message: m})
	}
	must(t, f.events(events...))
	must(t, f.answer(job.Job, "1"))
	r := zinotest.Receive(t, "the answer", answer)
	if len(r.Background) != 3 || r.Background[0].Message != messages[0] || r.Background[1].Message != messages[1] || r.Background[2].Message != messages[2] {
		t.Errorf("%d events", len(r.Background))
	}
	text := b.settled(a.File, 1)
	whole := strings.TrimSuffix(a.File, ".md") + "/1.txt"
	zinotest.Contains(t, "the text", text, "\n\\u001b[1mbold\n", "\n"+messages[1]+"\n", fence+"JSON console.log ", "\n"+messages[2][:90_000], "the whole is in "+whole)
	if b.file(whole) != messages[2] {
		t.Errorf("%s has %d bytes", whole, len(b.file(whole)))
	}
}

// evalPacket requests code to be run in the page "a".
func evalPacket(code string) string { return `{"type":"eval","page":"a","code":"` + code + `"}` }

// waiting waits until n callers wait for the page.
func (b *env) waiting(f *fake, n int) {
	b.t.Helper()
	b.until("callers wait", func() bool {
		f.log.mu.Lock()
		defer f.log.mu.Unlock()
		return len(f.log.evals) == n
	})
}

// TestHangUp: a caller that hangs up withdraws its request: a queued one is never run,
// a running one is cancelled in the page and ends in the file. Requests in the file
// are not affected.
func TestHangUp(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	socket := b.listen()
	f := b.silentPage(proto.Attach{Name: "a"})
	running, queued, last := rpctest.Dial(t, socket), rpctest.Dial(t, socket), rpctest.Dial(t, socket)
	running.Send(evalPacket("running"))
	job := f.job(0)
	queued.Send(evalPacket("queued"))
	b.waiting(f, 2)
	must(t, queued.Close())
	b.waiting(f, 1)
	b.add(f.Attached().File, js("fromFile"))
	must(t, running.Close())
	b.has(f.Attached().File, "(**ERROR** after ", "\ninterrupted: who asked for it does not wait")
	f.wasCanceled(job.Job)
	must(t, f.answer(f.job(1).Job, "1"))
	last.Send(evalPacket("last"))
	must(t, f.answer(f.job(2).Job, "2"))
	if got := last.Receive(); !strings.Contains(got, `"value":"2"`) {
		t.Errorf("the last one: %s", got)
	}
	if got := strings.Join(f.code(), ","); got != "running,fromFile,last" {
		t.Errorf("ran %q", got)
	}
	if text := b.file(f.Attached().File); strings.Contains(text, "queued") {
		t.Errorf("a withdrawn request is in the file:\n%s", text)
	}
}

// TestEvalEmptyValue checks which fields of the answer are on the wire.
func TestEvalEmptyValue(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a"})
	for i, c := range []struct {
		result proto.JobResult
		want   string
	}{
		{proto.JobResult{OK: true, Kind: "text"}, `"ok":true,"kind":"text","value":"","background":[],`},
		{proto.JobResult{Error: "x"}, `"ok":false,"kind":"text","error":"x","background":[],`},
	} {
		answered := b.eval(proto.Eval{Page: "a", Code: "x"})
		c.result.ID, c.result.Nonce, c.result.Job = f.Attached().ID, f.Attached().Nonce, f.job(i).Job
		_, err := b.Result(t.Context(), c.result)
		must(t, err)
		text, err := wire.AppendObject(nil, "", zinotest.Receive(t, "the answer", answered))
		must(t, err)
		if !strings.HasPrefix(string(text), "{"+c.want) {
			t.Errorf("got %s, want %s", text, c.want)
		}
	}
}

// TestEventTimes: events keep their time and place; a time that is not one is replaced.
func TestEventTimes(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a"})
	answered := b.eval(proto.Eval{Page: "a", Code: "x"})
	job := f.job(0)
	var sent []proto.PageEvent
	for _, ts := range []string{"22:52:48.120", "22:52:48", "", "25:00:00", "22:52:48.123456789", "now\n```"} {
		sent = append(sent, proto.PageEvent{Type: "console", Level: "log", TS: ts, Place: "app.js:12", Message: "m"})
	}
	sent[1].Place = "a\n`b\x1b" + strings.Repeat("x", 3000)
	must(t, f.events(sent...))
	must(t, f.answer(job.Job, "1"))
	got := zinotest.Receive(t, "the answer", answered).Background
	if len(got) != len(sent) || got[0].TS != "22:52:48.120" || got[0].Place != "app.js:12" || got[1].TS != "22:52:48" || got[4].TS != "22:52:48.123" {
		t.Fatalf("got %+v", got)
	}
	for _, e := range got {
		if _, err := time.Parse(time.TimeOnly, e.TS); err != nil || len(e.TS) > len(eventTime) || strings.ContainsAny(e.Place, "\n\x1b") || utf8.RuneCountInString(e.Place) > placeMax {
			t.Errorf("%+v", e)
		}
	}
}
