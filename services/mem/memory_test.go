package mem

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

func keep(tag string, messages ...string) string {
	return fmt.Sprintf(`{"type":"store_hard","messages":[%s],"tag":%s}`, strings.Join(messages, ","), quoted(tag))
}

func search(query string) string { return `{"type":"search_hard","query":` + quoted(query) + `}` }

func stored(id int) string { return fmt.Sprintf(`{"type":"ok","id":%d}`, id) }

// replyOf returns the reply with these results; see result.
func replyOf(results ...string) string {
	return `{"type":"hard_memories","results":[` + strings.Join(results, ",") + `]}`
}

func result(id int, tag, score string, messages ...string) string {
	if tag != "" {
		tag = `,"tag":` + quoted(tag)
	}
	return fmt.Sprintf(`{"messages":[%s],"score":%s,"id":%d%s}`, strings.Join(messages, ","), score, id, tag)
}

func TestStoreAndSearch(t *testing.T) {
	m := start(t, "")
	m.want(search("anything"), replyOf())
	tea, bread := msg("likes green tea"), `{"role":"user","content":"<b>bread</b>","x":1}`
	m.want(keep("", tea), stored(0))
	m.want(search("likes green tea"), replyOf(result(0, "", "0.6897", tea)))
	m.want(search("GREEN"), replyOf(result(0, "", "0.6897", tea)))
	m.want(keep("kitchen", bread, tea), stored(1))
	m.want(keep("", msg("c")), stored(2))
	m.want(search("kitchen"), replyOf(result(1, "kitchen", "0.6197", bread, tea)))
	for _, blank := range []string{"", "  \t", "?!", "nothing of that"} {
		m.want(search(blank), replyOf())
	}
	for k, n := range map[string]int{"0": 0, "-1": 0, "1": 1, "2": 2, "99": 2, `"1"`: 1, "null": 2} {
		reply := m.ask(fmt.Sprintf(`{"type":"search_hard","query":"tea","top_k":%s}`, k))
		if got := strings.Count(reply, "score"); got != n {
			t.Errorf("top_k %s: %s", k, reply)
		}
	}
	for i := range 5 {
		m.want(keep("", msg(fmt.Sprint("tea number ", i))), stored(3+i))
	}
	if reply := m.ask(search("tea")); strings.Count(reply, "score") != 3 || strings.Index(reply, "number 4") > strings.Index(reply, "number 3") {
		t.Errorf("without top_k, ties latest first: %s", reply)
	}
	var entries []struct {
		Messages []json.RawMessage
		Tag      string
	}
	if err := json.Unmarshal([]byte(m.read(hardFile)), &entries); err != nil || len(entries) != 8 || entries[1].Tag != "kitchen" || string(entries[1].Messages[0]) != bread {
		t.Errorf("the file has %v, %v", entries, err)
	}
}

func TestStoreInvalid(t *testing.T) {
	m := start(t, "")
	for _, bad := range []string{`"x"`, `null`, `{}`, `[null]`, `["x"]`, `[{"role":"user","content":null}]`, `[{"role":"user","content":7}]`, `[` + msg("a") + `,{"role":"user"}]`} {
		m.wantError(`{"type":"store_hard","messages":`+bad+`}`, "invalid", "messages")
	}
	m.wantError(`{"type":"store_hard"}`, "invalid", "messages")
	m.wantError(`{"type":"store_hard","messages":[],"tag":7}`, "invalid", "tag")
	m.wantError(`{"type":"search_hard"}`, "invalid", "query")
	m.wantError(`{"type":"search_hard","query":"x","top_k":"three"}`, "invalid", "top_k")
	if _, err := os.Stat(m.file(hardFile)); !os.IsNotExist(err) {
		t.Errorf("something was stored: %v", err)
	}
	m.want(keep("", msg("a")), stored(0))
}

func TestDuplicates(t *testing.T) {
	m := start(t, "")
	a := `{"role":"user","content":"a","n":1.0}`
	m.want(keep("", a), stored(0))
	m.want(keep("t", a), stored(1))
	for _, same := range []string{a, `{ "content": "a", "n": 1.0,` + "\n" + `"role": "user" }`, `{"role":"user","content":"\u0061","n":1.0}`} {
		m.want(keep("", same), stored(0))
		m.want(keep("t", same), stored(1))
		m.want(`{"type":"store_hard","messages":[`+same+`]}`, stored(0))
	}
	for i, other := range []string{`{"role":"user","content":"a"}`, `{"role":"user","content":"a","n":1}`, `{"role":"user","content":"a ","n":1.0}`, `{"role":"User","content":"a","n":1.0}`, a + "," + a} {
		m.want(keep("", other), stored(2+i))
	}
	b := start(t, m.dir) // after a restart
	b.want(keep("t", a), stored(1))
	if n := strings.Count(m.read(hardFile), `"messages"`); n != 7 {
		t.Errorf("%d entries in the file", n)
	}
}

// TestConcurrentStores stores the same memories concurrently over two services.
// Each memory must be stored once, and its id must be its position.
func TestConcurrentStores(t *testing.T) {
	servers := []*server{start(t, "")}
	servers = append(servers, start(t, servers[0].dir))
	ids := make([][]int, 8)
	var wg sync.WaitGroup
	for w := range ids {
		c := &rpc.Client{Service: "mem", Path: servers[w%2].path}
		defer c.Close()
		wg.Go(func() {
			for i := range 25 {
				rep, err := rpc.Call(t.Context(), c, proto.MemStoreHard, proto.StoreHard{Messages: proto.Raw("[" + msg(fmt.Sprint("memory ", i)) + "]")})
				if err != nil {
					t.Error(err)
				}
				ids[w] = append(ids[w], rep.ID)
			}
		})
	}
	wg.Wait()
	var entries []struct{ Messages []struct{ Content string } }
	if err := json.Unmarshal([]byte(servers[0].read(hardFile)), &entries); err != nil || len(entries) != 25 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for w := range ids {
		for i, id := range ids[w] {
			if got, want := entries[id].Messages[0].Content, fmt.Sprint("memory ", i); got != want {
				t.Errorf("id %d is %q, want %q", id, got, want)
			}
		}
	}
}

// TestForeignMemories reads a file that another program has written.
func TestForeignMemories(t *testing.T) {
	m := start(t, "")
	m.write(hardFile, `[
  {"messages": [{"role": "user", "content": "zero apple"}], "tag": null, "source": "import"},
  {"messages": [{"role": "user", "content": null}], "tag": "apple"},
  null,
  {"messages": [{"role": "user", "content": "three apple"}]},
  "apple",
  {"messages": [{"role": "user", "content": "five apple \ud800"}], "tag": 5},
  {"messages": [{"role": "user", "content": "six apple \ud800"}], "tag": "x"}
]`)
	reply := m.ask(`{"type":"search_hard","query":"apple","top_k":10}`)
	for word, there := range map[string]bool{"zero": true, "three": true, `six apple \ufffd`: true, "five": false, "null": false, "ud800": false} {
		if strings.Contains(reply, word) != there {
			t.Errorf("%q found: %v\n%s", word, !there, reply)
		}
	}
	m.want(keep("", msg("new")), stored(7))
	m.want(keep("", `{"role":"user","content":"three apple"}`), stored(3))
	p := strings.Join(m.problems(), "\n")
	if !strings.Contains(p, hardFile+": entry 1 is skipped") || !strings.Contains(p, "2 more") || !strings.Contains(m.log.String(), "entry 1 is skipped") {
		t.Errorf("problems %q\nlog %s", p, m.log)
	}
	if text := m.read(hardFile); !strings.Contains(text, `"source":"import"`) && !strings.Contains(text, `"source": "import"`) || !json.Valid([]byte(text)) {
		t.Errorf("the file is now %s", text)
	}

	// A person repairs the file by hand, then removes it.
	m.write(hardFile, `[{"messages":[{"role":"user","content":"pear"}]}]`)
	m.want(search("pear apple"), replyOf(result(0, "", "0.1185", msg("pear"))))
	if p := m.problems(); len(p) != 0 {
		t.Errorf("problems %q", p)
	}
	zinotest.Must(t, os.Remove(m.file(hardFile)))
	m.want(search("pear"), replyOf())
	m.want(keep("", msg("again")), stored(0))
}

func TestDamagedMemories(t *testing.T) {
	m := start(t, "")
	m.want(keep("", msg("first apple")), stored(0))
	m.want(keep("", msg("second apple")), stored(1))
	text := m.read(hardFile)
	m.write(hardFile, text[:len(text)-40])
	if reply := m.ask(search("apple")); !strings.Contains(reply, "first") || strings.Contains(reply, "second") {
		t.Errorf("from a torn file: %s", reply)
	}
	m.want(keep("", msg("third apple")), stored(1))
	if p := m.problems(); len(p) != 1 || !strings.Contains(p[0], hardFile+".damaged-1") {
		t.Errorf("problems %q", p)
	}
	again := start(t, m.dir)
	zinotest.Contains(t, "after a restart", again.ask(search("third")), "third")
}

// TestUnreadableMemories checks that histories work if the memories cannot be read.
func TestUnreadableMemories(t *testing.T) {
	dir := zinotest.Dir(t)
	zinotest.Must(t, os.Mkdir(dir+"/"+hardFile, 0o700))
	m := start(t, dir)
	m.want(put("c", msg("a")), ok)
	m.want(get("c"), hist(msg("a")))
	m.wantError(search("x"), "internal", hardFile)
	m.wantError(keep("", msg("x")), "internal", hardFile)
	if p := m.problems(); len(p) != 1 || !strings.Contains(p[0], hardFile) {
		t.Errorf("problems %q", p)
	}
}

func TestSearchTooLarge(t *testing.T) {
	m := start(t, "")
	m.s.room = 20_000
	for i := range 3 {
		m.want(keep("", msg(fmt.Sprint("needle ", i, strings.Repeat(" ", 8000)))), stored(i))
	}
	m.wantError(search("needle"), "too_large", "top_k", "limit")
	if reply := m.ask(`{"type":"search_hard","query":"needle","top_k":2}`); !strings.HasPrefix(reply, `{"type":"hard_memories"`) {
		t.Errorf("two of them: %.200s", reply)
	}
}

// TestRestart checks that searches return the same memories and scores after a
// restart.
func TestRestart(t *testing.T) {
	m := start(t, "")
	for i := range 40 {
		m.want(keep(fmt.Sprint("tag", i%3), msg(strings.Repeat(fmt.Sprint("word", i%7, " "), i%5+1)+fmt.Sprint("n", i))), stored(i))
	}
	again := start(t, m.dir)
	for _, q := range []string{"word1", "tag2 word3", "n17 word3"} {
		again.want(search(q), m.ask(search(q)))
	}
	var st struct{ Info map[string]string }
	if err := json.Unmarshal([]byte(again.ask(`{"type":"stats"}`)), &st); err != nil || st.Info["hard_memories"] != "40" {
		t.Errorf("stats %v, %v", st, err)
	}
}

func TestScoreOnTheWire(t *testing.T) {
	m := start(t, "")
	m.want(keep("", msg("alpha beta gamma delta epsilon zeta")), stored(0))
	var rep struct{ Results []struct{ Score float64 } }
	if err := json.Unmarshal([]byte(m.ask(search("alpha"))), &rep); err != nil || len(rep.Results) != 1 {
		t.Fatal(rep, err)
	}
	if got, want := rep.Results[0].Score, math.Round(2/2.9*1e4)/1e4; got != want {
		t.Errorf("score %v, want %v", got, want)
	}
}
