package repl

import (
	"strings"
	"testing"

	"zino/proto"
)

// evalPacket asks for code to be run in the page "a".
func evalPacket(code string) string { return `{"type":"eval","page":"a","code":"` + code + `"}` }

// waiting awaits that so many callers wait for the page.
func (b *env) waiting(f *fake, n int) {
	eventually(func() bool {
		f.log.mu.Lock()
		defer f.log.mu.Unlock()
		return len(f.log.evals) == n
	})
}

// TestHangUp: who hangs up takes the request back: one that waits for its turn is
// never run, one at the realm is cancelled there and ends in the file. What was
// written into the file goes on.
func TestHangUp(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	b.listen()
	f := b.silentPage(proto.Attach{Name: "a"})
	running, queued, last := b.dial(), b.dial(), b.dial()
	running.send(evalPacket("running"))
	job := f.job(0)
	queued.send(evalPacket("queued"))
	b.waiting(f, 2)
	must(t, queued.Close())
	b.waiting(f, 1)
	b.add(f.Attached().File, js("fromFile"))
	must(t, running.Close())
	b.has(f.Attached().File, "(**ERROR** after ", "\ninterrupted: who asked for it does not wait")
	eventually(func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.told) == 1 && f.told[0] == job.Job
	})
	must(t, f.answer(f.job(1).Job, "1"))
	last.send(evalPacket("last"))
	must(t, f.answer(f.job(2).Job, "2"))
	if got := last.next(); !strings.Contains(got, `"value":"2"`) {
		t.Errorf("the last one: %s", got)
	}
	if got := strings.Join(f.code(), ","); got != "running,fromFile\n,last" {
		t.Errorf("ran %q", got)
	}
	if text := b.file(f.Attached().File); strings.Contains(text, "queued") {
		t.Errorf("what was taken back is in the file:\n%s", text)
	}
}
