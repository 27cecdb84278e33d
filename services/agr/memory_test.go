package agr

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/agr/toolbox"
)

func TestRemember(t *testing.T) {
	for _, c := range []struct{ name, arguments, want, messages, tag string }{
		{"a text", `{"text":"the key is <here>"}`, "Remembered as memory 7.", `[{"role":"user","content":"the key is <here>"}]`, ""},
		{"with a tag", `{"text":"a","tag":" house "}`, "Remembered as memory 7.", `[{"role":"user","content":"a"}]`, "house"},
		{"no tag", `{"text":"a","tag":null}`, "Remembered as memory 7.", `[{"role":"user","content":"a"}]`, ""},
		{"blanks around it", `{"text":" a\n  b\n"}`, "Remembered as memory 7.", `[{"role":"user","content":"a\n  b"}]`, ""},
		{"in a string", `"{\"text\":\"é\"}"`, "Remembered as memory 7.", `[{"role":"user","content":"é"}]`, ""},

		{"no text", `{}`, "Error: Empty text.", "", ""},
		{"null text", `{"text":null}`, "Error: Empty text.", "", ""},
		{"blank text", `{"text":" \n"}`, "Error: Empty text.", "", ""},
		{"text of another case", `{"Text":"a"}`, "Error: Empty text.", "", ""},
		{"null", `null`, "Error: Empty text.", "", ""},
		{"a text that is a list", `{"text":["a"]}`, "Malformed tool_call JSON: text must be a string", "", ""},
		{"a tag that is a number", `{"text":"","tag":1}`, "Malformed tool_call JSON: tag must be a string", "", ""},
		{"both", `{"text":{},"tag":1}`, "Malformed tool_call JSON: text must be a string; tag must be a string", "", ""},
		{"a list", `["a"]`, "Malformed tool_call JSON: arguments: expected an object", "", ""},
		{"plain text", `"a"`, "Malformed tool_call JSON: arguments: invalid character 'a' looking for beginning of value", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, result := memories(t)
			if got := result(`{"name":"remember","arguments":` + c.arguments + `}`); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			var messages, tag string
			for _, s := range b.mem.kept() {
				messages, tag = messages+string(s.Messages), tag+s.Tag
			}
			if messages != c.messages || tag != c.tag {
				t.Errorf("stored %s with the tag %q, want %s with %q", messages, tag, c.messages, c.tag)
			}
		})
	}
}

// TestKnownMemory: what mem has already keeps its id, and the model is told.
func TestKnownMemory(t *testing.T) {
	_, result := memories(t)
	for _, step := range []struct{ arguments, want string }{
		{`{"text":"a"}`, "Remembered as memory 7."},
		{`{"text":"b"}`, "Remembered as memory 8."},
		{`{"text":"a"}`, "Known already as memory 7."},
		{`{"text":"b"}`, "Known already as memory 8."},
		{`{"text":"b","tag":"t"}`, "Remembered as memory 9."},
	} {
		if got := result(`{"name":"remember","arguments":` + step.arguments + `}`); got != step.want {
			t.Errorf("%s: got %q, want %q", step.arguments, got, step.want)
		}
	}
}

// TestOldMem: a mem that cannot list its memories stores them all the same.
func TestOldMem(t *testing.T) {
	b, result := memories(t)
	unlink(t, b.cfg.Mem.Socket)
	old := &memory{old: true}
	serve(t, "mem", b.cfg.Mem.Socket, old.register)
	if got := result(`{"name":"remember","arguments":{"text":"a"}}`); got != "Remembered as memory 7." || len(old.kept()) != 1 {
		t.Errorf("got %q, stored %v", got, old.kept())
	}
}

// TestMemoryErrors: an error of mem's own is a result.
func TestMemoryErrors(t *testing.T) {
	b, result := memories(t)
	full := &proto.Error{Code: proto.CodeInternal, Message: "the disk is full"}
	b.mem.refuse, b.mem.found = full, func(context.Context, proto.SearchHard) (proto.HardMemories, error) { return proto.HardMemories{}, full }
	for _, call := range []string{storing, searching} {
		if got := result(call); got != "Error: the disk is full" {
			t.Errorf("%s: got %q", call, got)
		}
	}
}

const (
	storing   = `{"name":"remember","arguments":{"text":"a"}}`
	searching = `{"name":"recall","arguments":{"query":"a"}}`
)

// TestMemoryDown: mem being down is a result, and the turn goes on.
func TestMemoryDown(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		b := newBench(t, says("<tool_call>"+storing+"</tool_call><tool_call>"+searching+"</tool_call>"), says("sorry"))
		b.remembering()
		unlink(t, b.cfg.Mem.Socket)
		if _, last := b.ask(request(question, more)); last.text() != "sorry" || last.iterations() != 2 {
			t.Errorf("last packet %s", last.raw)
		}
		got, err := lastMessage(b.rtr.asked()[1])
		if n := strings.Count(got, "\n<tool_response>\nError: Could not connect to mem: "); n != 2 || err != nil {
			t.Errorf("the model sees %q, %v", got, err)
		}
	})
}

// TestBuiltinsWithoutFiles: without their files these functions are unknown.
func TestBuiltinsWithoutFiles(t *testing.T) {
	_, result := results(t)
	for _, name := range []string{"remember", "recall"} {
		if got, want := result(`<tool_call>{"name":"`+name+`","arguments":{"text":"a","query":"a"}}</tool_call>`), "Error: Unknown tool function '"+name+"'"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestOwnName: a file may give a built-in tool a name of its own.
func TestOwnName(t *testing.T) {
	b, result := memories(t)
	b.tool("remember", `{"name":"note-down","builtin":"remember"}`)
	if got := result(`{"name":"note-down","arguments":{"text":"a"}}`); got != "Remembered as memory 7." {
		t.Errorf("got %q", got)
	}
	if got := result(`{"name":"remember","arguments":{"text":"a"}}`); got != "Error: Unknown tool function 'remember'" {
		t.Errorf("got %q", got)
	}
}

// TestNativeMemory: a session's model is offered the built-in tools with their
// schemas, calls them, and what it stores belongs to the session.
func TestNativeMemory(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		b := newBench(t, asks("", native("a", "remember", `{"text":"x"}`), native("b", "recall", `{"query":"x"}`), native("c", "recall", ``)), says("Done."))
		b.remembering()
		b.mem.finds(hit(7, 1, "", `[{"role":"user","content":"x"}]`))
		if _, last := b.ask(request(question, more+inSession)); last.text() != "Done." || last.iterations() != 2 {
			t.Fatalf("last packet %s", last.raw)
		}
		asked := b.rtr.asked()
		if got, want := string(asked[0].Tools), string(toolbox.Offer(b.cat.Snapshot(), false)); got != want || !strings.Contains(got, `"name":"recall"`) || !strings.Contains(got, "keeps <it>") {
			t.Errorf("offered %s\nwant %s", got, want)
		}
		for i, got := range toolResults(t, asked[1]) {
			want := []string{"Remembered as memory 7.", "[7] (score 1.00) x", `invalid_input: The field "query" is missing.`}[i]
			if brief(t, got) != want {
				t.Errorf("result %d is %q, want %q", i, got, want)
			}
		}
		if kept := b.mem.kept(); len(kept) != 1 || kept[0].SessionID != "s-1" {
			t.Errorf("stored %+v", kept)
		}
	})
}

// FuzzArguments: any arguments of the built-in tools give a result of its kind,
// and what is stored is a list of one message.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"text":"a","tag":"t"}`, `{"query":"a","top_k":3}`, `"{\"text\":\"a\"}"`, `{"top_k":"2e1","query":"\ud800"}`, `{"text":1}`, ``, `null`, "{\"text\":\"\xff\"}", `[]`} {
		f.Add([]byte(seed))
	}
	dir := shortDir(f)
	m := &memory{}
	serve(f, "mem", filepath.Join(dir, "mem"), m.register)
	client := &rpc.Client{Service: "mem", Path: filepath.Join(dir, "mem")}
	f.Cleanup(client.Close)
	f.Fuzz(func(t *testing.T, arguments []byte) {
		tr := &turn{s: &Service{mem: client}, ctx: t.Context()}
		fields, err := argumentsOf(arguments)
		if err != nil {
			return
		}
		if got := tr.remember(fields).plain(); !begins(got, "Remembered as memory ", "Known already as memory ", "Error: Empty text.", "Malformed tool_call JSON: ") {
			t.Errorf("remember %q: %q", arguments, got)
		}
		if got := tr.recall(fields).plain(); !begins(got, "No memories found.", "Error: Empty query.", "Malformed tool_call JSON: ") {
			t.Errorf("recall %q: %q", arguments, got)
		}
		if kept := m.kept(); len(kept) > 0 {
			s := kept[len(kept)-1]
			var list []struct{ Role, Content string }
			if err := json.Unmarshal(s.Messages, &list); err != nil || len(list) != 1 || list[0].Role != "user" || strings.TrimSpace(list[0].Content) == "" {
				t.Errorf("%q stores %s: %v", arguments, s.Messages, err)
			}
		}
	})
}

func begins(s string, beginnings ...string) bool {
	for _, beginning := range beginnings {
		if strings.HasPrefix(s, beginning) {
			return true
		}
	}
	return false
}
