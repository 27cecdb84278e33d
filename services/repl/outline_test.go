package repl

import (
	"context"
	"errors"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// outlined is the result of a call of Outline.
type outlined struct {
	text string
	err  error
}

// askOutline calls Outline.
func (b *env) askOutline(ctx context.Context, req proto.OutlinePage) <-chan outlined {
	done := make(chan outlined, 1)
	go func() {
		o, err := b.Outline(ctx, req)
		done <- outlined{o.Text, err}
	}()
	return done
}

// TestOutline checks that an outline is answered while code runs in the page, and is not
// recorded.
func TestOutline(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "shop", ID: "1a2b"})
	file := f.Attached().File
	b.add(file, js("await forever"))
	running := f.job(0)
	before := b.has(file, "executing (")

	done := b.askOutline(t.Context(), proto.OutlinePage{Page: "shop", Selector: `a"b`, Depth: 3})
	look := f.job(1)
	if look.Outline == nil || *look.Outline != (proto.Look{Selector: `a"b`, Depth: 3}) || look.Code != `zino.outline("a\"b", 3)` || look.Lang != "js" {
		t.Errorf("job %+v", look)
	}
	must(t, f.answer(look.Job, "main\n  button\x1b\u202e"))
	if got := zinotest.Receive(t, "the outline", done); got.err != nil || got.text != "main\n  button^[\\u202e" {
		t.Errorf("%+v", got)
	}
	if err := f.answer(look.Job, "again"); !errors.Is(err, proto.ErrUnknown) {
		t.Errorf("a second answer: %v", err)
	}

	done = b.askOutline(t.Context(), proto.OutlinePage{Page: "1a2b"})
	must(t, f.answer(f.job(2).Job, strings.Repeat("x", 1<<20)))
	if got := zinotest.Receive(t, "the outline", done); got.err != nil || len(got.text) > outlineMax || !strings.Contains(got.text, " bytes left out) ...") {
		t.Errorf("%d bytes, %v", len(got.text), got.err)
	}

	done = b.askOutline(t.Context(), proto.OutlinePage{Page: "1a2b", Selector: "#none"})
	a := f.Attached()
	_, err := b.Result(t.Context(), proto.JobResult{ID: a.ID, Nonce: a.Nonce, Job: f.job(3).Job, Error: "Error: nothing matches #none\n    at x"})
	must(t, err)
	if got := zinotest.Receive(t, "the outline", done); !errors.Is(got.err, proto.ErrInvalid) || got.err.Error() != "Error: nothing matches #none" {
		t.Errorf("%+v", got)
	}
	if after := b.has(file, "executing ("); strings.Count(after, "\n") != strings.Count(before, "\n") {
		t.Errorf("the file was\n%s\nand is\n%s", before, after)
	}
	must(t, f.answer(running.Job, "1"))
	b.settled(file, 1)
}

// TestOutlineUnanswered checks the errors of pages that do not answer, and that no later
// answer is taken.
func TestOutlineUnanswered(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "shop", ID: "1a2b"})
	ctx, cancel := context.WithCancel(t.Context())
	done := b.askOutline(ctx, proto.OutlinePage{Page: "shop"})
	look := f.job(0)
	cancel()
	if got := zinotest.Receive(t, "the outline", done); !errors.Is(got.err, context.Canceled) {
		t.Errorf("%+v", got)
	}
	f.wasCanceled(look.Job)
	if err := f.answer(look.Job, "late"); !errors.Is(err, proto.ErrUnknown) {
		t.Errorf("an answer after the end: %v", err)
	}
	done = b.askOutline(t.Context(), proto.OutlinePage{Page: "shop"})
	f.job(1)
	f.leave()
	if got := zinotest.Receive(t, "the outline", done); !errors.Is(got.err, proto.ErrNotFound) {
		t.Errorf("%+v", got)
	}
	b.page(proto.Attach{Name: "worker", ID: "3c4d", Lang: "python"})
	for _, req := range []proto.OutlinePage{{Page: "worker"}, {Page: "worker", Depth: -1}, {Page: "worker", Depth: 101}} {
		if got := zinotest.Receive(t, "the outline", b.askOutline(t.Context(), req)); !errors.Is(got.err, proto.ErrInvalid) {
			t.Errorf("%+v: %+v", req, got)
		}
	}
	f = b.silentPage(proto.Attach{Name: "shop", ID: "1a2b"})
	done = b.askOutline(t.Context(), proto.OutlinePage{Page: "shop"})
	f.job(0)
	b.stop()
	if got := zinotest.Receive(t, "the outline", done); !errors.Is(got.err, proto.ErrUnavailable) && !errors.Is(got.err, proto.ErrNotFound) {
		t.Errorf("%+v", got)
	}
}
