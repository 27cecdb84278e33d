package mem

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestHistory(t *testing.T) {
	m := start(t, "")
	a, b, c := msg("a"), `{"role":"assistant","content":"<tool_call>&","x":{"k":[1.50,null]}}`, msg("ü\u2028")
	m.want(get("kitchen"), hist())
	m.want(put("kitchen", a, b), ok)
	m.want(put("kitchen", c), ok)
	m.want(get("kitchen"), hist(a, b, c))
	for limit, want := range map[string]string{
		"1": hist(c), "2": hist(b, c), "3": hist(a, b, c), "99": hist(a, b, c), `"2"`: hist(b, c),
		"0": hist(a, b, c), "-1": hist(a, b, c), "null": hist(a, b, c),
	} {
		m.want(fmt.Sprintf(`{"type":"get_history","channel_id":"kitchen","limit":%s}`, limit), want)
	}
	zinotest.Equal(t, "file", m.read("channels/kitchen.json"), "[\n"+a+",\n"+b+",\n"+c+"\n]")
	m.want(get("garden"), hist())
	m.want(`{"type":"clear_history","channel_id":"kitchen"}`, ok)
	m.want(`{"type":"clear_history","channel_id":"kitchen"}`, ok)
	m.want(get("kitchen"), hist())
	if _, err := os.Stat(m.file("channels/kitchen.json")); !os.IsNotExist(err) {
		t.Errorf("the cleared history's file: %v", err)
	}
}

func TestHistoryInvalid(t *testing.T) {
	m := start(t, "")
	for _, typ := range []string{"get_history", "append_history", "clear_history"} {
		for _, id := range []string{"", `,"channel_id":""`, `,"channel_id":null`} {
			m.want(fmt.Sprintf(`{"type":"%s"%s}`, typ, id), `{"type":"error","message":"channel_id required","code":"invalid","service":"mem"}`)
		}
		m.wantError(fmt.Sprintf(`{"type":"%s","channel_id":7}`, typ), "invalid", "channel_id")
	}
	m.wantError(`{"type":"get_history","channel_id":"c","limit":"many"}`, "invalid", "limit")
	good := msg("good")
	m.want(put("c", good), ok)
	for _, bad := range []string{
		`"text"`, `{}`, `7`, `true`, `[` + good + `,null]`, `[` + good + `,"x"]`, `[[` + good + `]]`, `[` + good + `,{}]`,
		`[{"role":"user"}]`, `[{"content":"x"}]`, `[{"role":"user","content":null}]`, `[{"role":"user","content":["x"]}]`,
		`[{"role":7,"content":"x"}]`, `[{"Role":"user","Content":"x"}]`, `[` + good + `,]`, `[` + good + ` ` + good + `]`, "[{\"role\":\"user\",\"content\":\"\xff\"}]",
		`[{"role":"user","content":"x","content":null}]`, `[{"role":"user","content":"\x"}]`, `[{"role":"user","content":"a` + "\n" + `b"}]`,
	} {
		m.wantError(`{"type":"append_history","channel_id":"c","messages":`+bad+`}`, "invalid")
	}
	m.wantError(put("c", good, `{"role":"user","content":null}`), "invalid", "messages[1]", "content")
	for _, none := range []string{"", `,"messages":null`, `,"messages":[]`} {
		m.want(`{"type":"append_history","channel_id":"c"`+none+`}`, ok)
		m.want(`{"type":"append_history","channel_id":"none"`+none+`}`, ok)
	}
	m.want(get("c"), hist(good))
	if entries, err := os.ReadDir(m.file("channels")); err != nil || len(entries) != 1 {
		t.Errorf("files %v, %v", entries, err)
	}
}

func TestHistoryTexts(t *testing.T) {
	m := start(t, "")
	for given, stored := range map[string]string{
		`{ "role" : "user",` + "\r\n\t" + `"content" : "a  b" }`:            `{"role":"user","content":"a  b"}`,
		`{ "role": "user", "content": "kept as given" }`:                    `{ "role": "user", "content": "kept as given" }`,
		`{"role":"user","content":"\ud83d\ude00 \ud83d x \ude00"}`:          `{"role":"user","content":"\ud83d\ude00 \ufffd x \ufffd"}`,
		`{"role":"user","content":"\\ud83d \\\ud83d \uD83D\uD83D\uDE00"}`:   `{"role":"user","content":"\\ud83d \\\ufffd \ufffd\uD83D\uDE00"}`,
		`{"role":"user","content":"nul \u0000, quote \" and \/"}`:           `{"role":"user","content":"nul \u0000, quote \" and \/"}`,
		`{"r\u006fle":"user","content":""}`:                                 `{"r\u006fle":"user","content":""}`,
		`{"role":"user","content":"x","big":123456789012345678901234567.0}`: `{"role":"user","content":"x","big":123456789012345678901234567.0}`,
		`{"role":"user","content":"\ud83d"}`:                                `{"role":"user","content":"\ufffd"}`,
	} {
		m.want(put("c", given), ok)
		m.want(get("c"), hist(stored))
		m.want(`{"type":"clear_history","channel_id":"c"}`, ok)
	}
}

func TestHistoryTooLarge(t *testing.T) {
	m := start(t, "")
	big := msg(strings.Repeat("x", 6<<20))
	m.write("channels/big channel.json", "[\n"+big+",\n"+big+",\n"+big+",\n"+msg("last")+"\n]")
	m.wantError(get("big channel"), "too_large", "limit", `"big channel"`)
	m.want(`{"type":"get_history","channel_id":"big channel","limit":1}`, hist(msg("last")))
}

// TestHistoryRoom checks the limit of a reply to the byte, with a smaller limit
// than that of a frame.
func TestHistoryRoom(t *testing.T) {
	m := start(t, "")
	const room = 50_000
	m.s.histories.replyMax = room
	contents := room - len("[") - 2*len(msg("")) - len(",]")
	first, second := strings.Repeat("a", contents/2), strings.Repeat("b", contents-contents/2)
	m.want(put("edge", msg(first), msg(second)), ok)
	m.want(get("edge"), hist(msg(first), msg(second)))
	m.want(put("over", msg(first), msg(second+"b")), ok)
	m.wantError(get("over"), "too_large", "limit")
	m.want(`{"type":"get_history","channel_id":"over","limit":1}`, hist(msg(second+"b")))
	m.wantError(`{"type":"get_history","channel_id":"over","limit":2}`, "too_large", "limit")
}

// TestFrameRoom checks that a full list and the packet around it fit into a frame.
func TestFrameRoom(t *testing.T) {
	for _, packet := range []string{hist(), replyOf()} {
		if n := len(packet) + frameRoom - len("[]"); n > 1<<24-1 {
			t.Errorf("%s with a full list has %d bytes", packet, n)
		}
	}
}

func TestHistoryModes(t *testing.T) {
	m := start(t, "")
	m.want(put("c", msg("x")), ok)
	m.want(put("odd/name", msg("x")), ok)
	m.want(put(strings.Repeat("long", 200), msg("x")), ok)
	m.want(`{"type":"set_soft","content":"x"}`, ok)
	m.want(`{"type":"store_hard","messages":[]}`, `{"type":"ok","id":0}`)
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if want := fs.FileMode(0o600); err == nil && !d.IsDir() && fi.Mode().Perm() != want || d.IsDir() && fi.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", path, fi.Mode())
		}
		return err
	})
	zinotest.Must(t, err)
}

// TestDamagedHistory reads damaged files, and appends to them.
func TestDamagedHistory(t *testing.T) {
	m := start(t, "")
	for what, c := range map[string]struct {
		text, want string
		kept       bool
	}{
		"cut":       {"[\n" + msg("a") + ",\n" + msg("b")[:20], hist(msg("a")), true},
		"garbage":   {"\x00\xff no JSON", hist(), true},
		"indented":  {"[\n  {\n    \"role\": \"user\",\n    \"content\": \"a\"\n  }\n]\n", hist(msg("a")), false},
		"one line":  {"[" + msg("a") + ", " + msg("b") + "]", hist(msg("a"), msg("b")), false},
		"dangling":  {"[\n" + msg("a") + ",\n", hist(msg("a")), false},
		"empty":     {"", hist(), false},
		"no array":  {`{"messages":[]}`, hist(), true},
		"not UTF-8": {"[\n{\"role\":\"user\",\"content\":\"a\xff\"}\n]", hist(`{"role":"user","content":"a` + "\ufffd" + `"}`), true},
		"surrogate": {"[\n{\"role\":\"user\",\"content\":\"\\ud800\"}\n]", hist(`{"role":"user","content":"\ufffd"}`), false},
	} {
		id := strings.ReplaceAll(what, " ", "-")
		m.write("channels/"+id+".json", c.text)
		m.want(get(id), c.want)
		m.want(put(id, msg("new")), ok)
		m.want(fmt.Sprintf(`{"type":"get_history","channel_id":%q,"limit":1}`, id), hist(msg("new")))
		kept, err := os.ReadFile(m.file("channels/" + id + ".json.damaged-1"))
		if c.kept != (err == nil) || err == nil && string(kept) != c.text {
			t.Errorf("%s: quarantined: %q, %v", what, kept, err)
		}
		logged := strings.Contains(m.log.String(), "channels/"+id+".json is damaged")
		shown := strings.Contains(strings.Join(m.problems(), "\n"), "channels/"+id+".json.damaged-1")
		if logged != c.kept || shown != c.kept {
			t.Errorf("%s: logged %v, shown %v", what, logged, shown)
		}
	}
	for _, id := range []string{"cut", "garbage", "no-array", "not-UTF-8"} {
		zinotest.Must(t, os.Remove(m.file("channels/"+id+".json.damaged-1")))
	}
	if left := m.problems(); len(left) != 0 {
		t.Errorf("problems remain after the quarantined files were removed: %q", left)
	}
}

// TestSkippedMessages skips entries that are not messages.
func TestSkippedMessages(t *testing.T) {
	m := start(t, "")
	m.write("channels/c.json", "[\n"+msg("a")+",\n"+msg("b")+",\n{\"role\":\"user\",\"content\":null},\n7\n]")
	m.want(get("c"), hist(msg("a"), msg("b")))
	m.want(`{"type":"get_history","channel_id":"c","limit":1}`, hist(msg("b")))
	zinotest.Contains(t, "problems", strings.Join(m.problems(), "\n"), "channels/c.json: 2 entries are skipped")
	if n := strings.Count(m.log.String(), "skipped"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	m.want(put("c", msg("d")), ok)
	m.want(`{"type":"get_history","channel_id":"c","limit":2}`, hist(msg("b"), msg("d")))
	m.want(`{"type":"clear_history","channel_id":"c"}`, ok)
	if p := m.problems(); len(p) != 0 {
		t.Errorf("problems %q", p)
	}
}

// TestTwoServices checks that two services on one directory see each other's
// changes at once.
func TestTwoServices(t *testing.T) {
	a := start(t, "")
	b := start(t, a.dir)
	var want []string
	for i := range 6 {
		want = append(want, msg(fmt.Sprint(i)))
		[]*server{a, b}[i%2].want(put("c", want[i]), ok)
		a.want(get("c"), hist(want...))
		b.want(get("c"), hist(want...))
	}
	a.want(`{"type":"clear_history","channel_id":"c"}`, ok)
	b.want(get("c"), hist())
	b.want(put("c", msg("new")), ok)
	a.want(get("c"), hist(msg("new")))
	a.want(`{"type":"set_soft","content":"from a"}`, ok)
	b.want(`{"type":"get_soft"}`, `{"type":"soft_memory","content":"from a","set":true}`)
}

// TestManyChannels concurrently uses more than openMax channels.
func TestManyChannels(t *testing.T) {
	m := start(t, "")
	c := &rpc.Client{Service: "mem", Path: m.path}
	defer c.Close()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 2 * openMax {
				req := proto.AppendHistory{ChannelID: fmt.Sprintf("c%d", i), Messages: proto.Raw("[" + msg(fmt.Sprint(w)) + "]")}
				if _, err := rpc.Call(t.Context(), c, proto.MemAppendHistory, req); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range 2 * openMax {
		h, err := rpc.Call(t.Context(), c, proto.MemGetHistory, proto.GetHistory{ChannelID: fmt.Sprintf("c%d", i)})
		if n := strings.Count(string(h.Messages), "role"); err != nil || n != 4 {
			t.Fatalf("channel %d has %d messages, %v", i, n, err)
		}
	}
	if n := m.s.histories.order.Len(); n > openMax {
		t.Errorf("%d files are open", n)
	}
}
