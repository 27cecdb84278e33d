package mem

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestChangesOnTheWire stores, changes, lists and deletes memories.
func TestChangesOnTheWire(t *testing.T) {
	m := start(t, "")
	m.want(`{"type":"store_hard","messages":[`+msg("flour is out")+`],"tag":"kitchen","channel_id":"#home","session_id":"s-1"}`, stored(0))
	m.want(keep("", msg("bread is baked")), stored(1))
	item := m.ask(`{"type":"get_hard","id":0}`)
	if !strings.HasPrefix(item, `{"type":"hard_memory","id":0,"messages":[`+msg("flour is out")+`],"tag":"kitchen","channel_id":"#home","session_id":"s-1","created":"2`) {
		t.Errorf("get_hard: %s", item)
	}
	m.want(`{"type":"update_hard","id":0,"messages":[`+msg("flour is bought")+`]}`, ok)
	m.want(`{"type":"update_hard","id":"0","tag":"cellar"}`, ok)
	m.want(`{"type":"update_hard","id":0}`, ok)
	m.want(`{"type":"search_hard","query":"out kitchen"}`, replyOf())
	m.want(`{"type":"search_hard","query":"cellar","tag":"cellar","channel_id":"#home","since":"2020-01-01","min_score":0.5,"explain":true}`,
		replyOf(`{"messages":[`+msg("flour is bought")+`],"score":0.6776,"id":0,"tag":"cellar","words":[{"word":"cellar","share":0.6776}]}`))
	m.wantError(`{"type":"update_hard","id":1,"messages":[`+msg("flour is bought")+`],"tag":"cellar"}`, "invalid", "memory 0 says the same")
	m.want(`{"type":"delete_hard","id":0}`, ok)
	for _, request := range []string{`{"type":"get_hard","id":0}`, `{"type":"delete_hard","id":0}`, `{"type":"update_hard","id":0,"tag":"x"}`, `{"type":"get_hard","id":7}`, `{"type":"get_hard","id":-1}`} {
		m.wantError(request, "not_found", "there is no memory")
	}
	m.want(keep("", msg("next")), stored(2))
	reply := m.ask(`{"type":"list_hard"}`)
	if strings.Count(reply, `"id":`) != 2 || strings.Index(reply, `"id":2`) > strings.Index(reply, `"id":1`) || strings.Contains(reply, "next\":") {
		t.Errorf("list_hard: %s", reply)
	}
}

func TestChangesInvalid(t *testing.T) {
	m := start(t, "")
	m.want(keep("", msg("a")), stored(0))
	for request, word := range map[string]string{
		`{"type":"get_hard"}`:                                                "id",
		`{"type":"delete_hard"}`:                                             "id",
		`{"type":"delete_hard","id":"x"}`:                                    "id",
		`{"type":"update_hard","id":0,"messages":"x"}`:                       "messages",
		`{"type":"update_hard","id":0,"messages":[{"role":"user"}]}`:         "messages[0]",
		`{"type":"update_hard","id":0,"tag":7}`:                              "tag",
		`{"type":"search_hard","query":"a","since":"yesterday"}`:             "since",
		`{"type":"search_hard","query":"a","until":"2026-13-01"}`:            "until",
		`{"type":"search_hard","query":"a","until":"2026-01-01T00:00"}`:      "until",
		`{"type":"search_hard","query":"a","min_score":1.5}`:                 "min_score",
		`{"type":"search_hard","query":"a","min_score":-1}`:                  "min_score",
		`{"type":"list_hard","since":"1"}`:                                   "since",
		`{"type":"list_hard","until":"2026-01-01 00:00:00"}`:                 "until",
		`{"type":"list_hard","limit":"many"}`:                                "limit",
		`{"type":"store_hard","messages":[` + msg("x") + `],"channel_id":5}`: "channel_id",
	} {
		m.wantError(request, "invalid", word)
	}
	if n := strings.Count(m.read(hardFile), "\n"); n != 2 {
		t.Errorf("something was stored: %s", m.read(hardFile))
	}
}

// TestPages lists more memories than fit into one reply.
func TestPages(t *testing.T) {
	m := start(t, "")
	for i := range 230 {
		m.want(keep(fmt.Sprint("t", i%2), msg(fmt.Sprint("memory ", i))), stored(i))
	}
	var seen []int
	next, pages := "", 0
	for {
		var rep struct {
			Items []struct{ ID int }
			Next  *int
		}
		zinotest.Must(t, json.Unmarshal([]byte(m.ask(`{"type":"list_hard","tag":"t1"`+next+`}`)), &rep))
		pages++
		for _, i := range rep.Items {
			seen = append(seen, i.ID)
		}
		if rep.Next == nil {
			break
		}
		next = fmt.Sprintf(`,"before":%d`, *rep.Next)
	}
	if pages != 2 || len(seen) != 115 || seen[0] != 229 || seen[114] != 1 {
		t.Errorf("%d pages, %d memories %v", pages, len(seen), seen)
	}
	for limit, n := range map[string]int{"1": 1, "0": 100, "-5": 100, "5000": 230, "1000": 230} {
		if reply := m.ask(`{"type":"list_hard","limit":` + limit + `}`); strings.Count(reply, `"id"`) != n {
			t.Errorf("limit %s gives %d", limit, strings.Count(reply, `"id"`))
		}
	}
	m.s.room = 3000
	if reply := m.ask(`{"type":"list_hard"}`); len(reply) > 3200 || !strings.Contains(reply, `"next":`) {
		t.Errorf("a page limited to 3000 bytes has %d bytes: %s", len(reply), reply)
	}
}

// TestClockThatJumps checks that memories are ordered by id, not by time, when the
// clock is set back.
func TestClockThatJumps(t *testing.T) {
	m := start(t, "")
	m.write(hardFile, `[
{"messages":[`+msg("tea one")+`],"tag":"","time":"2090-01-01T00:00:00Z"},
{"messages":[`+msg("tea two")+`],"tag":"","time":"1990-01-01T00:00:00Z"},
{"messages":[`+msg("tea six")+`],"tag":"","time":"no time"},
{"messages":[`+msg("tea ten")+`],"tag":"","time":7}
]`)
	for request, ids := range map[string]string{
		`{"type":"list_hard"}`:                                                "3 2 1 0",
		`{"type":"list_hard","since":"2000-01-01"}`:                           "0",
		`{"type":"list_hard","until":"2000-01-01T00:00:00+02:00"}`:            "1",
		`{"type":"search_hard","query":"tea","top_k":9}`:                      "3 2 1 0",
		`{"type":"search_hard","query":"tea","since":"1990-01-01T00:00:00Z"}`: "1 0",
	} {
		var rep struct{ Items, Results []struct{ ID int } }
		zinotest.Must(t, json.Unmarshal([]byte(m.ask(request)), &rep))
		var got []string
		for _, i := range append(rep.Items, rep.Results...) {
			got = append(got, fmt.Sprint(i.ID))
		}
		if strings.Join(got, " ") != ids {
			t.Errorf("%s: %v, want %s", request, got, ids)
		}
	}
	if reply := m.ask(`{"type":"get_hard","id":3}`); strings.Contains(reply, "created") {
		t.Errorf("an invalid time: %s", reply)
	}
}

// TestFormat checks with jq that the file is a JSON array in which every change is
// an additional element.
func TestFormat(t *testing.T) {
	m := start(t, "")
	m.want(keep("t", msg("a")), stored(0))
	m.want(keep("", msg("b")), stored(1))
	m.want(keep("", msg("c")), stored(2))
	before := m.read(hardFile)
	m.want(`{"type":"update_hard","id":1,"messages":[`+msg("B")+`]}`, ok)
	m.want(`{"type":"delete_hard","id":0}`, ok)
	after := m.read(hardFile)
	if !strings.HasPrefix(after, strings.TrimSuffix(before, "\n]")) || !json.Valid([]byte(after)) {
		t.Errorf("the file was\n%s\nand is\n%s", before, after)
	}
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Fatal("jq is not installed: make need gets it")
	}
	out, err := exec.Command(jq, "-c", `map([.id,.deleted,.messages[0].content?])`, m.file(hardFile)).CombinedOutput()
	if want := `[[null,null,"a"],[null,null,"b"],[null,null,"c"],[1,null,"B"],[0,true,null]]`; err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("jq: %s, %v", out, err)
	}
}

// TestForeignElements reads elements of other programs, with "id" keys of any
// meaning.
func TestForeignElements(t *testing.T) {
	m := start(t, "")
	m.write(hardFile, `[
{"id":5,"messages":[`+msg("zero apple")+`]},
{"id":0,"messages":[`+msg("one apple")+`],"tag":"export"},
{"id":1,"updated":"2026-01-01T00:00:00Z","messages":[`+msg("one pear")+`],"source":"x"},
{"id":9,"deleted":true},
{"id":0,"deleted":false,"messages":[`+msg("two apple")+`]},
{"id":"0","deleted":true,"messages":[`+msg("three apple")+`]},
{"id":0,"updated":"2026-01-01T00:00:00Z","messages":"none"}
]`)
	m.want(`{"type":"search_hard","query":"apple pear","top_k":9,"explain":false,"min_score":0}`, m.ask(`{"type":"search_hard","query":"apple pear","top_k":9}`))
	reply := m.ask(`{"type":"search_hard","query":"apple pear","top_k":9}`)
	for _, word := range []string{"zero apple", "one pear", "two apple", "three apple"} {
		if !strings.Contains(reply, word) {
			t.Errorf("%q is not found: %s", word, reply)
		}
	}
	m.want(keep("", msg("new")), stored(4))
	if p := strings.Join(m.problems(), "\n"); !strings.Contains(p, "element 3 changes memory 9") || !strings.Contains(p, "1 more") {
		t.Errorf("problems %q", p)
	}
	m.want(`{"type":"update_hard","id":1,"tag":"kept"}`, ok)
	if text := m.read(hardFile); strings.Count(text, `"source":"x"`) != 2 {
		t.Errorf("the update lost a key of another program: %s", text)
	}
}

// TestRewrittenUnderway checks that a change by another program is noticed although
// the size and the mtime of the file stay the same.
func TestRewrittenUnderway(t *testing.T) {
	m := start(t, "")
	m.want(keep("", msg("apple")), stored(0))
	m.want(keep("", msg("other")), stored(1))
	fi, err := os.Stat(m.file(hardFile))
	zinotest.Must(t, err)
	m.write(hardFile, strings.Replace(m.read(hardFile), "apple", "mango", 1))
	zinotest.Must(t, os.Chtimes(m.file(hardFile), fi.ModTime(), fi.ModTime()))
	zinotest.Contains(t, "get_hard", m.ask(`{"type":"get_hard","id":0}`), "mango")
	zinotest.Contains(t, "search_hard", m.ask(search("mango")), "mango")
}

// TestStoreCreated checks that an imported memory keeps its time, and that an
// invalid time is refused.
func TestStoreCreated(t *testing.T) {
	m := start(t, "")
	m.want(`{"type":"store_hard","messages":[`+msg("old")+`],"created":"2020-02-29T23:30:00+01:00"}`, stored(0))
	zinotest.Contains(t, "get_hard", m.ask(`{"type":"get_hard","id":0}`), `"created":"2020-02-29T22:30:00Z"`)
	m.wantError(`{"type":"store_hard","messages":[`+msg("other")+`],"created":"yesterday"}`, "invalid", "created must be a time")
}
