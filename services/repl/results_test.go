package repl

import (
	"context"
	"os"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// part sends a part of a value.
func (f *fake) part(job, text string) error {
	a := f.Attached()
	_, err := f.b.Part(f.b.t.Context(), proto.JobPart{ID: a.ID, Nonce: a.Nonce, Job: job, Text: text})
	return err
}

// TestParts: a value that comes in parts is joined, and stored beside the log.
func TestParts(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a", ID: "1a2b"})
	file := f.Attached().File
	b.add(file, js("1"))
	job := f.job(0).Job
	zinotest.Error(t, f.part("none", "x"), proto.ErrUnknown)
	a := f.Attached()
	_, err := b.Part(t.Context(), proto.JobPart{ID: a.ID, Nonce: "other", Job: job, Text: "x"})
	zinotest.Error(t, err, proto.ErrUnknown)
	million := strings.Repeat("0123456789", 100_000)
	for range 5 {
		must(t, f.part(job, million))
	}
	must(t, f.answer(job, "1"))
	zinotest.Error(t, f.part(job, "x"), proto.ErrUnknown)
	b.settled(file, 1)
	if got := b.file("debug/a-1a2b/1.txt"); got != strings.Repeat(million, 5)+"1" {
		t.Errorf("%d bytes are stored", len(got))
	}
	b.add(file, js("2"))
	job = f.job(1).Job
	must(t, f.part(job, "4"))
	must(t, f.answer(job, "2"))
	if text := b.settled(file, 2); !strings.Contains(text, "JSON\n42\n") {
		t.Errorf("the second result: %s", text)
	}
}

// TestPartsBounded: parts are refused above 64 MiB, and those of a request that has
// ended are not kept.
func TestPartsBounded(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a", ID: "1a2b"})
	file := f.Attached().File
	b.add(file, js("1"))
	job := f.job(0).Job
	b.wholeMax = 1 << 20
	for range 64 {
		must(t, f.part(job, strings.Repeat("x", b.wholeMax/64)))
	}
	zinotest.Error(t, f.part(job, "x"), proto.ErrTooLarge)
	must(t, f.answer(job, ""))
	b.settled(file, 1)
	if info, err := os.Stat(b.path("debug/a-1a2b/1.txt")); err != nil || info.Size() != int64(b.wholeMax) {
		t.Errorf("stored: %v, %v", info, err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.Eval(ctx, proto.Eval{Page: "1a2b", Code: "2"})
		ended <- err
	}()
	job = f.job(1).Job
	hangUp()
	zinotest.Error(t, zinotest.Receive(t, "the caller", ended), context.Canceled)
	zinotest.Error(t, f.part(job, "lost"), proto.ErrUnknown)
	f.log.mu.Lock()
	if g := f.log.givenJob(job); g.parts != nil {
		t.Errorf("parts are kept: %q", g.parts)
	}
	f.log.mu.Unlock()
	must(t, f.answer(job, "late"))
	b.has(file, "... (4 bytes before this were dropped, the request had ended) ...\nlate\n")
}

// TestKeepTaken: a file of another program with the name of a long result stays as it
// is, and the result is written without it.
func TestKeepTaken(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a", ID: "1a2b"})
	file := f.Attached().File
	b.write("debug/a-1a2b/1.txt", "theirs")
	b.add(file, js("1"))
	must(t, f.answer(f.job(0).Job, strings.Repeat("x", 1<<20)))
	text := b.settled(file, 1)
	if got := b.file("debug/a-1a2b/1.txt"); got != "theirs" {
		t.Errorf("their file is %.40q", got)
	}
	if !strings.Contains(text, "more bytes left out, the whole could not be stored) ...\n") || strings.Contains(text, "1.txt)") {
		t.Errorf("the file: %s", text)
	}
}

// TestLongAnswer: an answer above 1 MiB has what the file shows, and the file of the
// whole. An error is treated alike.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a", ID: "1a2b"})
	a := f.Attached()
	for i, ok := range []bool{true, false} {
		for j, size := range []int{valueMax, valueMax + 1} {
			answered := b.eval(proto.Eval{Page: "a", Code: "x"})
			long := strings.Repeat("x", size)
			result := proto.JobResult{ID: a.ID, Nonce: a.Nonce, Job: f.job(2*i + j).Job, OK: ok, Kind: "text"}
			if result.Value = long; !ok {
				result.Value, result.Error = "", long
			}
			_, err := b.Result(t.Context(), result)
			must(t, err)
			r := zinotest.Receive(t, "the answer", answered)
			text := valueOf(r) + r.Error
			switch whole := r.Whole == ""; {
			case whole != (size <= valueMax), whole && text != long:
				t.Errorf("%d bytes: %d bytes, whole %q", size, len(text), r.Whole)
			case !whole && (len(text) > 9<<10 || b.file(r.Whole) != long):
				t.Errorf("%d bytes are in %s: %.100s", size, r.Whole, text)
			}
		}
	}
}
