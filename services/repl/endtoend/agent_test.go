package endtoend_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/proto"
)

// provider starts a fake provider whose model follows a script.
func provider(t *testing.T, script string) *fakellm.Server {
	t.Helper()
	text, err := os.ReadFile(script)
	must(t, err)
	turns, err := fakellm.Parse(string(text))
	must(t, err)
	server := fakellm.New(turns...)
	t.Cleanup(server.Close)
	return server
}

// exec runs the agent, which spawns its services, and returns its answer and its
// progress lines.
func (w *world) exec(model *fakellm.Server, prompt string) (answer, progress string) {
	w.t.Helper()
	var out, err bytes.Buffer
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(bin, "zino"), "--config", w.config, "exec", "--root", w.path("."), "-p", prompt)
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, &out, &err
	cmd.Env = w.env("ANTHROPIC_API_KEY=sk-1", "ANTHROPIC_BASE_URL="+model.URL)
	if failed := cmd.Run(); failed != nil {
		w.t.Fatalf("zino exec: %v\n%s", failed, &err)
	}
	return out.String(), err.String()
}

// TestAgent checks that the agent finds a page, diagnoses and repairs its error,
// verifies the repair and answers, and that the page's log shows every step.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	v, list := w.show(w.url+"/shop.html"), w.show(w.url+"/zino/")
	p := w.connected("shop", 1)[0]
	w.until("the page's own error is in its file", func() bool {
		text := w.file(p.File)
		return strings.Contains(text, "Error window.onerror") && strings.HasSuffix(text, "\n\n"+footer)
	})
	v.picture("shop-before.png")
	model := provider(t, "testdata/repair.script")
	answer, progress := w.exec(model, "The page shop shows no total. Why?")
	if want := "which shows 13.00 now; fix shop.js, too.\n"; !strings.HasSuffix(answer, want) || model.Unused() != 0 {
		t.Errorf("the answer is %q, %d turns of the model are unused", answer, model.Unused())
	}
	if strings.Count(progress, "Tool requested: page_eval ") != 4 || strings.Count(progress, "Tool failed: page_eval page_error: ") != 1 {
		t.Errorf("the progress is\n%s", progress)
	}
	if shown := in[string](v, `document.querySelector("output").textContent`); shown != "13.00" {
		t.Errorf("the page shows %q", shown)
	}
	w.until("the list shows that the page has answered", func() bool {
		return strings.Contains(in[string](list, "document.body.innerText"), "completed (")
	})
	v.picture("shop-after.png")
	list.picture("zino.png")
	keep(t, "agent.txt", []byte(progress+answer))
	keep(t, "debug.md", []byte(w.file("debug.md")))
	keep(t, "log.md", []byte(w.file(p.File)))
	w.golden(p, "repair.md")
	if left, err := os.ReadDir(filepath.Join(w.dir, "run")); err != nil || len(left) > 0 {
		t.Errorf("remaining files: %v, %v", left, err)
	}
}

var (
	jobName = regexp.MustCompile(`zino-job-\w+-(\d+)\.js`)
	took    = regexp.MustCompile(`(\((?:\*\*ERROR\*\* after )?)(?:\d+ms|\d+\.\ds)\)`)
)

// fixed returns text of a page's file with times, ids and durations replaced by fixed
// ones.
func (w *world) fixed(p proto.Page, text string) string {
	text = strings.NewReplacer(p.ID, "1a2b", w.url, "http://127.0.0.1:8302").Replace(text)
	text = logged.ReplaceAllString(clock.ReplaceAllString(text, " at 22:52:48"), "$1 22:52:48.120")
	text = took.ReplaceAllString(text, "${1}17ms)")
	return jobName.ReplaceAllString(text, "zino-job-$1.js")
}

// golden compares a page's file with a golden one.
func (w *world) golden(p proto.Page, name string) {
	w.t.Helper()
	text := w.fixed(p, w.file(p.File))
	golden := filepath.Join("testdata", name)
	if *update {
		must(w.t, os.WriteFile(golden, []byte(text), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(w.t, err)
	if text != string(want) {
		w.t.Errorf("the file has changed (go test -run '^%s$' -update writes it):\n%s\nwant:\n%s", w.t.Name(), text, want)
	}
}
