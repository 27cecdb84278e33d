package agr

import (
	"context"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// TestPagesOffered: the tools for pages are there in those turns of sessions that
// begin while a REPL listens, and who asks for the tools is told the same.
func TestPagesOffered(t *testing.T) {
	t.Parallel()
	b := newBench(t, says("none yet"), says("there"), says("a plain run"), asks("", native("a", "page_list", "")), says("gone"))
	plain, paged := string(toolbox.Offer(b.cat.Snapshot(), false)), string(toolbox.Offer(b.cat.Snapshot(), true))
	b.ask(request(question, inSession))
	_, gone := b.paging()
	b.ask(request(question, inSession))
	b.ask(request(question, ""))
	if _, last := b.ask(`{"type":"tools"}`); last.raw != `{"type":"tools","tools":`+paged+`}` {
		t.Errorf("told %s", last.raw)
	}
	gone()
	b.ask(request(question, inSession))
	asked := b.rtr.asked()
	for i, want := range []string{plain, paged, "", plain, plain} {
		if got := string(asked[i].Tools); got != want {
			t.Errorf("inference %d is offered %s", i+1, got)
		}
	}
	want := "unknown_tool: There is no tool 'page_list'. There are: read, write, edit, bash, execute_python3, task."
	if got := toolResults(t, asked[4]); len(got) != 1 || brief(t, got[0]) != want {
		t.Errorf("the model sees %q", got)
	}
}

// TestPageTools: pages are listed, code is run in them, and code that fails is a
// call that failed.
func TestPageTools(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, _ bool, more string) {
		b := newBench(t, asks("", native("a", "page_list", ""), native("b", "page_list", "{}"),
			native("c", "page_eval", `{"page":"shop","code":" 12+13\n"}`), native("d", "page_eval", `{"page":"shop-1a2b","code":"x","timeout_ms":1500}`)), says("Done."))
		p, _ := b.paging()
		p.answers(func(_ context.Context, req proto.Eval) (proto.Evaluated, error) {
			if req.Code == "x" {
				return proto.Evaluated{Error: "ReferenceError: x", Background: []proto.RealmEvent{{Type: "console", Message: "m"}}, DurationMS: 3, File: shop.File}, nil
			}
			return proto.Evaluated{OK: true, Kind: "json", Value: "25", DurationMS: 17, File: shop.File}, nil
		})
		if _, last := b.ask(request(question, more+inSession)); last.text() != "Done." {
			t.Fatalf("last packet %s", last.raw)
		}
		list := string(toolbox.Pages(proto.Pages{Pages: []proto.Page{shop}}))
		want := []string{
			list, list,
			`{"ok":true,"data":{"kind":"json","value":"25","duration_ms":17,"file":"debug/shop-1a2b.md"}}`,
			`{"ok":false,"error":{"code":"page_error","message":"ReferenceError: x"},"data":{"background":[{"type":"console","message":"m"}],"duration_ms":3,"file":"debug/shop-1a2b.md"}}`,
		}
		if got := toolResults(t, b.rtr.asked()[1]); !slices.Equal(got, want) {
			t.Errorf("the model sees %q\nwant %q", got, want)
		}
		evals := []proto.Eval{{Page: "shop", Code: " 12+13\n", Sandbox: "off"}, {Page: "shop-1a2b", Code: "x", TimeoutMS: 1500, Sandbox: "off"}}
		if got := p.asked(); !reflect.DeepEqual(got, evals) {
			t.Errorf("asked for %+v", got)
		}
	})
}

// TestPageFaults: whatever is wrong with a call or with the REPL is a result.
func TestPageFaults(t *testing.T) {
	t.Parallel()
	cases := []struct{ call, want string }{
		{native("a", "page_eval", ""), `invalid_input: The field "page" is missing.`},
		{native("a", "page_eval", `{"page":"shop"}`), `invalid_input: The field "code" is missing.`},
		{native("a", "page_eval", `{"page":null,"code":"x"}`), `invalid_input: The field "page" is missing.`},
		{native("a", "page_eval", `{"page":"shop","code":" \n"}`), "invalid_input: Empty code block."},
		{native("a", "page_eval", `{"page":["shop"],"code":7}`), "invalid_input: Malformed tool_call JSON: page must be a string; code must be a string"},
		{native("a", "page_eval", `{"page":"shop","code":"x","timeout_ms":0.5}`), "invalid_input: Malformed tool_call JSON: timeout_ms must be a whole number from 1 to 86400000"},
		{native("a", "page_eval", `{"page":"sh`), "invalid_input: Malformed tool_call JSON: arguments: unexpected end of JSON input"},
		{native("a", "page_list", `[]`), "invalid_input: Malformed tool_call JSON: arguments: expected an object"},
		{native("a", "page_eval", `{"page":"none","code":"x"}`), `invalid_input: No page "none" is connected. page_list shows the pages.`},
		{native("a", "page_eval", `{"page":"busy","code":"x"}`), "tool_error: too much"},
		{native("a", "page_eval", `{"page":"ending","code":"x"}`), "unavailable: stopping"},
		{native("a", "page_go", ``), "unknown_tool: There is no tool 'page_go'. There are: read, write, edit, bash, page_list, page_eval, execute_python3, task."},
	}
	var calls []string
	for _, c := range cases {
		calls = append(calls, c.call)
	}
	b := newBench(t, asks("", calls...), says("Done."))
	p, _ := b.paging()
	p.answers(func(_ context.Context, req proto.Eval) (proto.Evaluated, error) {
		return proto.Evaluated{}, map[string]*proto.Error{
			"none":   {Code: proto.CodeNotFound, Message: `No page "none" is connected.`},
			"busy":   {Code: proto.CodeBusy, Message: "too much"},
			"ending": {Code: proto.CodeUnavailable, Message: "stopping"},
		}[req.Page]
	})
	b.ask(request(question, inSession))
	results := toolResults(t, b.rtr.asked()[1])
	if len(results) != len(cases) {
		t.Fatalf("%d results", len(results))
	}
	for i, c := range cases {
		if got := brief(t, results[i]); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.call, got, c.want)
		}
	}
}

// TestPagesConfined: the level of the turn reaches the REPL, which refuses the
// code or runs it outside the sandbox, and the model is informed either way.
func TestPagesConfined(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, _ bool, more string) {
		b := newBench(t, asks("", native("a", "page_eval", `{"page":"shop","code":"x"}`), native("b", "page_eval", `{"page":"shop","code":"y"}`)), says("Done."))
		p, _ := b.paging()
		p.answers(func(_ context.Context, req proto.Eval) (proto.Evaluated, error) {
			if req.Code == "x" {
				return proto.Evaluated{}, &proto.Error{Code: proto.CodeDenied, Message: "Pages are not confined."}
			}
			return proto.Evaluated{OK: true, Kind: "json", Value: "25"}, nil
		})
		b.ask(request(question, `,"sandbox":"read-only"`+more+inSession))
		for _, req := range p.asked() {
			if req.Sandbox != "read-only" {
				t.Errorf("asked for %+v", req)
			}
		}
		want := []string{
			`{"ok":false,"error":{"code":"denied","message":"Pages are not confined."}}`,
			`{"ok":true,"data":{"kind":"json","value":"25","duration_ms":0,"note":"Pages are not confined: this code ran outside the sandbox (read-only) of this turn."}}`,
		}
		if got := toolResults(t, b.rtr.asked()[1]); !slices.Equal(got, want) {
			t.Errorf("the model sees %q\nwant %q", got, want)
		}
	})
}

// TestPagesConfiguredLevel: without a level of its own a turn has the one that is
// configured for exc.
func TestPagesConfiguredLevel(t *testing.T) {
	t.Parallel()
	b := startBench(t, func(cfg *config.Config) { cfg.Exc.Sandbox = "workspace-write" },
		says(`<tool_call>{"name":"page_eval","arguments":{"page":"shop","code":"x"}}</tool_call>`), says("Done."))
	p, _ := b.paging()
	b.ask(request(question, inSession))
	if got := p.asked(); len(got) != 1 || got[0].Sandbox != "workspace-write" {
		t.Errorf("asked for %+v", got)
	}
}

// TestPagesGone: a REPL that ends during a turn is told of.
func TestPagesGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, gone := b.paging()
	b.rtr.script = []reply{func(context.Context, proto.Infer, *rpc.Out) (proto.Text, error) {
		gone()
		return proto.Text{ToolCalls: callList(native("a", "page_list", ""), native("b", "page_eval", `{"page":"shop","code":"x"}`))}, nil
	}, says("Done.")}
	b.ask(request(question, inSession))
	for _, got := range toolResults(t, b.rtr.asked()[1]) {
		if !strings.HasPrefix(brief(t, got), "unavailable: Could not connect to repl: ") {
			t.Errorf("the model sees %s", got)
		}
	}
}

// TestHangUpInPage: who goes away is no longer waited for, and nothing is started
// thereafter.
func TestHangUpInPage(t *testing.T) {
	t.Parallel()
	n := newBlocked()
	b := newBench(t, asks("", native("a", "page_eval", `{"page":"shop","code":"x"}`), native("b", "page_eval", `{"page":"shop","code":"y"}`)), says("never"))
	p, _ := b.paging()
	p.answers(func(ctx context.Context, _ proto.Eval) (proto.Evaluated, error) {
		return proto.Evaluated{}, n.wait(ctx)
	})
	b.leave(request(question, inSession+told), n)
	if evals, asked := len(p.asked()), len(b.rtr.asked()); evals != 1 || asked != 1 {
		t.Errorf("%d evaluations, %d inferences", evals, asked)
	}
}

// TestPageBlocks: a model without native calls reaches pages with blocks, and who
// watches is told of the calls.
func TestPageBlocks(t *testing.T) {
	t.Parallel()
	b := newBench(t, says(`Look. <tool_call>{"name":"page_eval","arguments":{"page":"shop","code":"1<2"}}</tool_call>`), says("Done."))
	p, _ := b.paging()
	told := strings.Join(b.watch(request(question, inSession+told)), "\n")
	for _, want := range []string{`"name":"page_eval","input":{"page":"shop","code":"1<2"}`, `"result":{"ok":true,"data":{"kind":"json","value":"25"`} {
		if !strings.Contains(told, want) {
			t.Errorf("no %s in %s", want, told)
		}
	}
	if got := p.asked(); len(got) != 1 || got[0].Code != "1<2" {
		t.Errorf("asked for %+v", got)
	}
}

// TestStrangeSocket: a listener that answers nothing delays no turn: it is not
// asked before a tool is called.
func TestStrangeSocket(t *testing.T) {
	t.Parallel()
	b := newBench(t, says("Done."))
	l, err := net.Listen("unix", b.cfg.Repl.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, last := b.ask(request(question, inSession)); last.text() != "Done." {
		t.Errorf("last packet %s", last.raw)
	}
	if got, want := string(b.rtr.asked()[0].Tools), string(toolbox.Offer(b.cat.Snapshot(), true)); got != want {
		t.Errorf("offered %s", got)
	}
}
