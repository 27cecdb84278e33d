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

// provider is a model that follows a script.
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

// exec has the agent do something, with services that it brings along, and
// returns what it answers and what it tells of its work.
func (w *world) exec(model *fakellm.Server, prompt string) (answer, told string) {
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

// TestAgent: the agent looks for a page, sees what fails in it, mends it there,
// looks again and answers. Every step can be read in the page's file.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	v := w.browse(w.url + "/shop.html")
	p := w.connected("shop", 1)[0]
	w.until("the error of the page's own is in its file", func() bool {
		return strings.Contains(w.file(p.File), "Error window.onerror") && strings.HasSuffix(w.file(p.File), "\n\n"+footer)
	})
	v.picture("shop-before.png")
	status := w.browse(w.url + "/zino/")
	model := provider(t, "testdata/repair.script")
	answer, told := w.exec(model, "The basket of the page shop shows no total. Why?")
	if want := "which shows 13.00 now; mend shop.js, too.\n"; !strings.HasSuffix(answer, want) {
		t.Errorf("it answers %q", answer)
	}
	if n := strings.Count(told, "Tool failed: page_eval page_error: "); n != 1 || strings.Count(told, "Tool requested: page_eval ") != 4 {
		t.Errorf("it tells\n%s", told)
	}
	if n := model.Unused(); n != 0 {
		t.Errorf("%d turns of the model were not taken", n)
	}
	if shown := in[string](v, `document.querySelector("output").textContent`); shown != "13.00" {
		t.Errorf("the page shows %q", shown)
	}
	keep(t, "transcript.md", []byte(w.file(p.File)))
	keep(t, "debug.md", []byte(w.file("debug.md")))
	keep(t, "agent.txt", []byte(answer+told))
	v.picture("shop-after.png")
	w.until("the list shows the page", func() bool {
		return strings.Contains(in[string](status, "document.body.innerText"), "completed (")
	})
	status.picture("zino.png")
	w.golden(p, "repair.md")
	if left, err := os.ReadDir(filepath.Join(w.dir, "run")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

var (
	jobName = regexp.MustCompile(`zino-job-\w+-(\d+)\.js`)
	took    = regexp.MustCompile(`(\((?:\*\*ERROR\*\* after )?)(?:\d+ms|\d+\.\ds)\)`)
)

// golden holds a page's file against a golden one, which is one that could be:
// only times, ids and durations are always the same in it.
func (w *world) golden(p proto.Page, name string) {
	w.t.Helper()
	text := strings.NewReplacer(p.ID, "1a2b", w.url, "http://127.0.0.1:8302").Replace(w.file(p.File))
	text = clock.ReplaceAllString(text, " at 22:52:48")
	text = took.ReplaceAllString(text, "${1}17ms)")
	text = jobName.ReplaceAllString(text, "zino-job-$1.js")
	golden := filepath.Join("testdata", name)
	if *update {
		must(w.t, os.WriteFile(golden, []byte(text), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(w.t, err)
	if text != string(want) {
		w.t.Errorf("the file is not as it was (go test -run '^%s$' -update writes it anew):\n%s\nwant:\n%s", w.t.Name(), text, want)
	}
}
