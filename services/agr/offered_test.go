package agr

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"zino/proto"
	"zino/services/agr/toolbox"
)

// TestOffered: a session's turn offers what the catalog has when it begins, and
// who asks for it is told the same.
func TestOffered(t *testing.T) {
	b := newBench(t, says("one"), says("two"))
	dir := filepath.Dir(b.path)
	wants := []string{string(toolbox.Offer(b.cat.Snapshot(), false))}
	b.ask(request(question, inSession))
	if err := os.WriteFile(filepath.Join(dir, "tools", "perl.json"), []byte(`{"description":"the \"pearl\""}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "skills")); err != nil {
		t.Fatal(err)
	}
	wants = append(wants, string(toolbox.Offer(b.cat.Reload(), false)))
	if wants[0] == wants[1] {
		t.Fatal("nothing has changed")
	}
	b.ask(request(question, inSession))
	for i, want := range wants {
		if got := string(b.rtr.asked()[i].Tools); got != want {
			t.Errorf("turn %d\n got %s\nwant %s", i+1, got, want)
		}
	}
	if _, last := b.ask(`{"type":"tools"}`); last.raw != `{"type":"tools","tools":`+wants[1]+`}` {
		t.Errorf("told %s", last.raw)
	}
}

// TestNoFiles: without files a session still has the tools of exc. A call of the
// function task is one of a function that does not exist.
func TestNoFiles(t *testing.T) {
	b := newBench(t, asks("", native("a", "task", `{"skill":"disk","request":"x"}`)), says("Done."))
	dir := filepath.Dir(b.path)
	for _, name := range []string{"tools", "skills"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.cat.Reload()
	if _, last := b.ask(request(question, inSession)); last.text() != "Done." {
		t.Errorf("last packet %s", last.raw)
	}
	asked := b.rtr.asked()
	var offered []proto.Raw
	if err := json.Unmarshal(asked[0].Tools, &offered); err != nil || len(offered) != 4 {
		t.Errorf("offered %s", asked[0].Tools)
	}
	if got, err := lastMessage(asked[1]); brief(t, got) != "unknown_tool: There is no tool 'task'. There are: read, write, edit, bash." || err != nil {
		t.Errorf("the model sees %q, %v", got, err)
	}
}

// TestHiddenNames: a file whose tool has the name of one of exc's does not hide
// it in a session. In a plain run, which has none of these, it is what it was.
func TestHiddenNames(t *testing.T) {
	b := newBench(t, asks("", native("a", "read", `{"path":"x"}`)), says("Done."), says(`<tool_call>{"name":"read","arguments":{"query":"x"}}</tool_call>`), says("Done."))
	b.tool("read", `{"name":"read","builtin":"recall"}`)
	b.exc.answers(func(proto.Call) proto.Raw { return toolbox.Said("from exc") })
	b.ask(request(question, inSession))
	b.ask(request(question, ""))
	asked := b.rtr.asked()
	if got := toolResults(t, asked[1]); len(got) != 1 || brief(t, got[0]) != "from exc" {
		t.Errorf("the session's model sees %q", got)
	}
	if got := string(asked[0].Tools); got != string(toolbox.Offer(b.cat.Snapshot(), false)) {
		t.Errorf("offered %s", got)
	}
	if got, err := lastMessage(asked[3]); err != nil || got != `<tool_call>{"name":"read","arguments":{"query":"x"}}</tool_call>`+response("No memories found.") {
		t.Errorf("the plain run's model sees %q, %v", got, err)
	}
}
