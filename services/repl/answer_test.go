package repl

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/proto"
)

// TestResult: an answer counts once, and only from the realm that has the job.
func TestResult(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f, other := b.silentPage(proto.Attach{Name: "a"}), b.silentPage(proto.Attach{Name: "b"})
	b.add(f.Attached().File, js("1"))
	job := f.job(0)
	a, o := f.Attached(), other.Attached()
	for name, r := range map[string]proto.JobResult{
		"of another realm": {ID: o.ID, Nonce: o.Nonce, Job: job.Job, OK: true},
		"a wrong nonce":    {ID: a.ID, Nonce: o.Nonce, Job: job.Job, OK: true},
		"no nonce":         {ID: a.ID, Job: job.Job, OK: true},
		"a wrong id":       {ID: "ffff", Nonce: a.Nonce, Job: job.Job, OK: true},
		"a wrong job":      {ID: a.ID, Nonce: a.Nonce, Job: job.Job + "0", OK: true},
		"no job":           {ID: a.ID, Nonce: a.Nonce, OK: true},
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
	if err := f.answer(job.Job, "41"); err != nil {
		t.Errorf("the answer: %v", err)
	}
	if err := f.answer(job.Job, "42"); !errors.Is(err, proto.ErrUnknown) {
		t.Errorf("a second one: %v", err)
	}
	if text := b.settled(a.File, 1); !strings.Contains(text, fence+"JSON\n41\n"+fence+"\n") || strings.Contains(text, "\n42\n") {
		t.Errorf("the file: %s", text)
	}
}

// TestError: what a page throws is the reply, and the next block is run.
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
	for _, want := range []string{"(**ERROR** after ", fence + "Error\nError: one\n  at x\n" + fence + "\n", fence + "JSON\n22\n", "\nand\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestTimeout: a page that does not answer in time fails, what it says later is a
// note and nobody else's answer.
func TestTimeout(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "", func(c *config.Repl) { c.Timeout = 0.1 })
	f := b.silentPage(proto.Attach{Name: "a"})
	a := f.Attached()
	b.add(a.File, js("first"))
	first := f.job(0)
	if first.TimeoutMS != 100 || first.Lang != "js" {
		t.Errorf("%+v", first)
	}
	text := b.settled(a.File, 1)
	if !strings.Contains(text, "(**ERROR** after 100ms)") || !strings.Contains(text, "timeout") {
		t.Errorf("after the timeout: %s", text)
	}
	eventually(func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.told) == 1 && f.told[0] == first.Job
	})
	if err := f.answer(first.Job, "111"); err != nil {
		t.Errorf("a late answer: %v", err)
	}
	b.has("debug.md", "state: late")
	r, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: "second", TimeoutMS: 50})
	if err != nil || r.OK || !strings.Contains(r.Error, "timeout") {
		t.Errorf("a request whose time is short: %+v, %v", r, err)
	}
	text = b.has(a.File, "late result", "111")
	if strings.Contains(text, fence+"JSON\n111") {
		t.Errorf("the late answer became a reply: %s", text)
	}
	if err := f.answer(first.Job, "112"); !errors.Is(err, proto.ErrUnknown) {
		t.Errorf("a second late answer: %v", err)
	}
}

// TestGone: when the page goes its job fails at once, and what it says later counts
// for nothing, also when it is there again.
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
	if err := f.answer(job.Job, "1"); !errors.Is(err, proto.ErrUnknown) {
		t.Errorf("from a page that is gone: %v", err)
	}
	again := b.page(proto.Attach{Name: "a", ID: "1a2b", Nonce: "n2"})
	if err := again.answer(job.Job, "1"); !errors.Is(err, proto.ErrUnknown) {
		t.Errorf("from the page that was loaded anew: %v", err)
	}
	if got := again.code(); len(got) != 0 {
		t.Errorf("it was given %q", got)
	}
}

// TestAway: what is written while the page is away is left alone, and runs once it
// is back.
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

// TestEvents: what happens beside the jobs is in the file; a flood of it is not.
func TestEvents(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	a := f.Attached()
	send := func(events ...proto.RealmEvent) error {
		_, err := b.Events(t.Context(), proto.RealmEvents{ID: a.ID, Nonce: a.Nonce, Events: events})
		return err
	}
	must(t, send())
	must(t, send(proto.RealmEvent{Type: "console", Level: "log", Message: "ready"},
		proto.RealmEvent{Type: "window.onerror", Message: "x is not defined", Stack: "ReferenceError: x\n  at y"}))
	b.has(a.File, "background at", fence+"Text console.log\nready\n", fence+"Error window.onerror\n", "at y")
	flood := make([]proto.RealmEvent, 2*eventsMax)
	for i := range flood {
		flood[i] = proto.RealmEvent{Type: "console", Level: "log", Message: strings.Repeat("flood", 100)}
	}
	for range 2 {
		must(t, send(flood...))
	}
	b.has(a.File, "more background events omitted")
	if n := len(b.file(a.File)); n > 100_000 {
		t.Errorf("the file has %d bytes", n)
	}
	if _, err := b.Events(t.Context(), proto.RealmEvents{ID: a.ID, Nonce: "x", Events: flood[:1]}); !errors.Is(err, proto.ErrUnknown) {
		t.Errorf("a wrong nonce: %v", err)
	}
	f.leave()
	if err := send(flood[0]); !errors.Is(err, proto.ErrUnknown) {
		t.Errorf("a page that is gone: %v", err)
	}
}

// TestSource: where an event comes from is what it says, or made of what it is.
func TestSource(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]proto.RealmEvent{
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

// TestEval: requests of programs wait their turn and are answered with what
// happened meanwhile.
func TestEval(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a"})
	a := f.Attached()
	type answer struct {
		proto.Evaluated
		err error
	}
	answers := make(chan answer, 2)
	for _, code := range []string{"one", "two"} {
		go func() {
			r, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: code, Agent: "robot"})
			answers <- answer{r, err}
		}()
	}
	first := f.job(0)
	_, err := b.Events(t.Context(), proto.RealmEvents{ID: a.ID, Nonce: a.Nonce, Events: []proto.RealmEvent{{Type: "console", Level: "log", Message: "hello"}}})
	must(t, err)
	if len(f.code()) != 1 {
		t.Errorf("both are out: %q", f.code())
	}
	must(t, f.answer(first.Job, "1"))
	if r := <-answers; r.err != nil || r.Value != "1" || len(r.Background) != 1 || r.Background[0] != (proto.RealmEvent{Type: "console", Level: "log", Source: "console.log", Message: "hello"}) {
		t.Errorf("the first: %+v", r)
	}
	second := f.job(1)
	flood := make([]proto.RealmEvent, 25)
	for i := range flood {
		flood[i] = proto.RealmEvent{Type: "console", Level: "log", Message: strconv.Itoa(i)}
	}
	_, err = b.Events(t.Context(), proto.RealmEvents{ID: a.ID, Nonce: a.Nonce, Events: flood})
	must(t, err)
	must(t, f.answer(second.Job, "2"))
	if r := <-answers; r.err != nil || r.Value != "2" || len(r.Background) != 10 || r.Omitted != 15 || r.Background[2].Message != "17" {
		t.Errorf("the second: %+v", r)
	}
	text := b.settled(a.File, 2)
	if strings.Count(text, "> **robot** to a-") != 2 || strings.Index(text, "JSON\n1\n") > strings.Index(text, "JSON\n2\n") {
		t.Errorf("the file: %s", text)
	}
}

func TestEvalRefused(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	b.silentPage(proto.Attach{Name: "a"})
	for name, c := range map[string]struct {
		req  proto.Eval
		want error
	}{
		"no code":         {proto.Eval{Page: "a", Code: " \n"}, proto.ErrInvalid},
		"negative":        {proto.Eval{Page: "a", Code: "1", TimeoutMS: -1}, proto.ErrInvalid},
		"too long a time": {proto.Eval{Page: "a", Code: "1", TimeoutMS: 1 << 60}, proto.ErrInvalid},
		"no page":         {proto.Eval{Code: "1"}, proto.ErrNotFound},
		"another page":    {proto.Eval{Page: "b", Code: "1"}, proto.ErrNotFound},
	} {
		if _, err := b.Eval(t.Context(), c.req); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
