package line

import (
	"bytes"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestAppend(t *testing.T) {
	now := time.Date(2026, 11, 23, 11, 31, 0, 123456000, time.FixedZone("", 3600))
	e := proto.AuditEntry{Kind: "call", Session: "s\n", Turn: "t-1", Call: "c1", Data: proto.Raw("{ \"tool\":\n\"bash\u2028\" }")}
	got, err := Append(nil, 7, now, Source{UID: 992, PID: 811, Src: "exc"}, e, "ab")
	zinotest.Must(t, err)
	want := `{"seq":7,"ts":"2026-11-23T10:31:00.123456Z","uid":992,"pid":811,"src":"exc","kind":"call","session":"s\n","turn":"t-1","call":"c1","data":{"tool":"bash\u2028"},"prev":"ab"}` + "\n"
	if string(got) != want {
		t.Errorf("got %s", got)
	}
	got, err = Append(nil, 0, now, Source{UID: 992, PID: 811, Src: "exc"}, proto.AuditEntry{Kind: "stop"}, "")
	zinotest.Must(t, err)
	if want := `{"ts":"2026-11-23T10:31:00.123456Z","uid":992,"pid":811,"src":"exc","kind":"stop"}` + "\n"; string(got) != want {
		t.Errorf("got %s", got)
	}
	if _, err := Append(nil, 7, now, Source{}, proto.AuditEntry{Kind: "call", Data: proto.Raw(`{"a":`)}, ""); err == nil {
		t.Error("broken data was accepted")
	}
}

func TestFileNumber(t *testing.T) {
	for name, want := range map[string]int{"audit-000001.jsonl": 1, "audit-1234567.jsonl": 1234567, "audit-1.jsonl": 0, "audit-000000.jsonl": 0, "audit-00000x.jsonl": 0, "audit.jsonl": 0, "": 0} {
		if got := FileNumber(name); got != want {
			t.Errorf("%q: %d", name, got)
		}
	}
}

// FuzzParse checks that a line that is parsed is written again with the same meaning, and
// that it is found as the last one behind anything.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"seq":7,"ts":"2026-11-23T10:31:00.123456Z","uid":992,"pid":811,"src":"exc","kind":"call","session":"s","turn":"t-1","call":"c1","data":{"tool":"bash"},"prev":"ab"}`))
	f.Add([]byte(`{"ts":"2026-11-23T10:31:00Z","uid":0,"pid":1,"src":"exc","kind":"stop"}`))
	f.Add([]byte(`{"seq":-1,"ts":"","kind":"call"}`))
	f.Add([]byte(`{"seq":1e3,"ts":"2026-11-23T10:31:00Z","kind":"call","data":[]}`))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := Parse(line)
		if err != nil || bytes.ContainsRune(line, '\n') {
			return
		}
		e := proto.AuditEntry{Kind: r.Kind, Session: r.Session, Turn: r.Turn, Call: r.Call, Data: r.Data}
		again, err := Append(nil, r.Seq, r.Time(), Source{r.UID, r.PID, r.Src}, e, "00")
		if err != nil {
			return // it grew beyond the limit
		}
		got, err := Parse(again)
		if err != nil || got.Kind != r.Kind || got.Session != r.Session || got.Seq != r.Seq || got.UID != r.UID {
			t.Errorf("%s is written as %s: %v", line, again, err)
		}
		if r.Seq == 0 {
			return
		}
		data := append([]byte("x\n"), again...)
		if last, end := LastLine(append(data, "torn"...)); !bytes.Equal(last, again) || end != len(data) {
			t.Errorf("the last line is %q", last)
		}
	})
}
