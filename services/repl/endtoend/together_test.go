package endtoend_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestTogether lets two agents, over the socket, and a person, in the file, work on one
// page at the same time. Each block runs once and has its reply, everyone sees the same
// page, and looking at it changes nothing in it.
func TestTogether(t *testing.T) {
	t.Parallel()
	const rounds = 6
	w := newWorld(t, "")
	w.show(w.url + "/shop.html")
	p := w.connected("shop", 1)[0]
	w.ask(p, "let ran = []; const note = who => { ran.push(who); console.log(who); return who }")
	start, err := rpc.Call(t.Context(), w.client, proto.ReplLog, proto.ReadPageLog{Page: p.ID})
	must(t, err)

	var everyone sync.WaitGroup
	for _, agent := range []string{"ada", "bob"} {
		client := rpctest.Client(t, "repl", w.dir+"/s")
		everyone.Go(func() {
			for i := range rounds {
				who := fmt.Sprint(agent, i)
				r, err := rpc.Call(t.Context(), client, proto.ReplEval, proto.Eval{Page: p.ID, Agent: agent, Code: fmt.Sprintf("await 0; note(%q)", who)})
				if err != nil || !r.OK || *r.Value != who {
					t.Errorf("%s: %+v, %v", who, r, err)
				}
				o, err := rpc.Call(t.Context(), client, proto.ReplOutline, proto.OutlinePage{Page: p.ID, Selector: "h1"})
				if err != nil || !strings.HasPrefix(o.Text, `heading 1 "Your basket" [`) {
					t.Errorf("%s sees %q, %v", who, o.Text, err)
				}
			}
		})
	}
	for i := range rounds {
		who := fmt.Sprint("cleo", i)
		w.add(p.File, "\n> **cleo** to shop\n"+js(fmt.Sprintf("note(%q)", who)))
		w.until("the reply to "+who, func() bool {
			_, reply, _ := strings.Cut(w.file(p.File), fmt.Sprintf("note(%q)\n%s\n", who, fence))
			return strings.Contains(reply, "to cleo at ") && strings.Contains(reply, "\n"+fence+"Text\n"+who+"\n"+fence+"\n")
		})
	}
	everyone.Wait()

	text := w.history(p.File)
	for _, who := range []string{"ada", "bob", "cleo"} {
		if n := strings.Count(text, "> **"+who+"** to shop"); n != rounds {
			t.Errorf("%d requests of %s", n, who)
		}
		for i := range rounds {
			if n := strings.Count(text, fmt.Sprintf("note(\"%s%d\")", who, i)); n != 1 {
				t.Errorf("request %d of %s stands %d times", i, who, n)
			}
		}
	}
	if exchange := w.ask(p, "[ran.length, new Set(ran).size]"); !strings.Contains(exchange, fmt.Sprintf("\n[%d,%[1]d]\n", 3*rounds)) {
		t.Errorf("the page says\n%s", exchange)
	}
	log, err := rpc.Call(t.Context(), w.client, proto.ReplLog, proto.ReadPageLog{Page: p.ID, After: start.Next})
	must(t, err)
	var seen []string
	for _, e := range log.Events {
		seen = append(seen, e.Message)
	}
	if len(seen) != 3*rounds || log.LeftOut != 0 {
		t.Errorf("%d events are left out, the others are %q", log.LeftOut, seen)
	}
}
