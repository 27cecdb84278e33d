package repl

import (
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/proto"
)

// TestEvalBackground: who evaluates gets what happened as the realm told it. In
// the file it is escaped, and what is long is kept beside it.
func TestEvalBackground(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "", func(cfg *config.Repl) { cfg.BodyMax = 100_000 })
	f := b.silentPage(proto.Attach{Name: "a"})
	a := f.Attached()
	answer := make(chan proto.Evaluated, 1)
	go func() {
		r, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: "1"})
		if err != nil {
			t.Error(err)
		}
		answer <- r
	}()
	job := f.job(0)
	messages := []string{"\x1b[1mbold", strings.Repeat("x", 90_000), `{"a": "` + strings.Repeat("y", 200_000) + `"}`}
	var events []proto.RealmEvent
	for _, m := range messages {
		events = append(events, proto.RealmEvent{Type: "console", Level: "log", Message: m})
	}
	_, err := b.Events(t.Context(), proto.RealmEvents{ID: a.ID, Nonce: a.Nonce, Events: events})
	must(t, err)
	must(t, f.answer(job.Job, "1"))
	r := <-answer
	if len(r.Background) != 3 || r.Background[0].Message != messages[0] || r.Background[1].Message != messages[1] ||
		!strings.HasPrefix(r.Background[2].Message, messages[2][:100_000]+"\n... (100009 more bytes left out) ...") {
		t.Errorf("%d events", len(r.Background))
	}
	text := b.settled(a.File, 1)
	whole := strings.TrimSuffix(a.File, ".md") + "/1.txt"
	for _, want := range []string{"\n\\u001b[1mbold\n", "\n" + messages[1] + "\n", fence + "JSON console.log\n" + messages[2][:90_000], "the whole is in " + whole} {
		if !strings.Contains(text, want) {
			t.Errorf("not in the file: %.60q", want)
		}
	}
	if b.file(whole) != messages[2] {
		t.Errorf("%s has %d bytes", whole, len(b.file(whole)))
	}
}
