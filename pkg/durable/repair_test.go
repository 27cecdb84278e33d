package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"zino/pkg/zinotest"
)

// objectsIn returns the JSON objects of a file.
func objectsIn(t *testing.T, f *File) (list [][]byte) {
	t.Helper()
	if f.opt.Framing == Array {
		list, err := f.Last(0, 0)
		zinotest.Must(t, err)
		return list
	}
	for line, err := range f.From(0) {
		zinotest.Must(t, err)
		if line.IsObject() {
			list = append(list, bytes.Clone(line.Text))
		}
	}
	return list
}

// TestTornWrites cuts the write of an append at every byte, followed by bytes that
// a crash may leave there. Earlier objects must be complete, whole objects of the
// write may be present, and the next append must work.
func TestTornWrites(t *testing.T) {
	batches := [][][]byte{objectsFrom(10, 11), objectsFrom(10, 13), {[]byte(`{"s":"a ] } , \" {\"n\":1},"}`)}}
	for what, framing := range framings {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, framing, "")
			text := linesOf
			if framing == Array {
				text = arrayOf
			}
			for stored := range 3 {
				old := text(objectsFrom(0, stored))
				end := len(old)
				if framing == Array {
					if stored == 0 {
						old = nil
					}
					end = max(0, len(old)-len(closing))
				}
				for _, batch := range batches {
					whole := text(slices.Concat(objectsFrom(0, stored), batch))
					for cut := end; cut <= len(whole); cut++ {
						zeros := bytes.Clone(whole)
						clear(zeros[cut:])
						behind := map[string][]byte{"nothing": whole[:cut], "zeros": zeros, "old bytes": append(bytes.Clone(whole[:cut]), old[min(cut, len(old)):]...)}
						if framing == Lines {
							hole := bytes.Clone(whole) // a later page was written, an earlier one was not
							clear(hole[len(old):cut])
							behind["a hole before"] = hole
							behind["garbage"] = append(bytes.Clone(whole[:cut]), "\xff\x00}{]\"x"...)
							behind["a line"] = append(bytes.Clone(whole[:cut]), "garbage\n"...)
							behind["white space"] = append(bytes.Clone(whole[:cut]), " \t\r"...)
						}
						for what, torn := range behind {
							checkTorn(t, e, fmt.Sprintf("%d stored, cut at %d of %d, %s behind", stored, cut, len(whole), what), torn, stored, batch)
						}
					}
				}
			}
		})
	}
}

func checkTorn(t *testing.T, e *env, what string, torn []byte, stored int, batch [][]byte) {
	t.Helper()
	e.put(t, string(torn))
	list, want := objectsIn(t, e.File), slices.Concat(objectsFrom(0, stored), batch)
	good := len(list) >= stored && slices.EqualFunc(list[:stored], want[:stored], bytes.Equal)
	for i := stored; good && i < len(list); i++ {
		good = i < len(want) && bytes.Equal(list[i], want[i])
		if e.opt.Framing == Lines { // an earlier line may be lost in a hole
			good = slices.ContainsFunc(batch, func(b []byte) bool { return bytes.Equal(b, list[i]) })
		}
	}
	if !good {
		t.Fatalf("%s: got %s (%v)\n%q", what, joined(list), e.events, torn)
	}
	mustAdd(t, e.File, object(99))
	if got := objectsIn(t, e.File); joined(got) != joined(append(list, object(99))) {
		t.Fatalf("%s: after an append %s, before %s", what, joined(got), joined(list))
	}
	if text := e.text(t); e.opt.Framing == Array {
		checkArray(t, text)
	} else if !strings.HasSuffix(text, "\n"+string(object(99))+"\n") && text != string(object(99))+"\n" {
		t.Fatalf("%s: file %q", what, text)
	}
	zinotest.Must(t, removeQuarantined(e.root, name))
	e.events = nil
}

// TestTornByAnother repairs the write of another process that died while this one
// has the file open.
func TestTornByAnother(t *testing.T) {
	e := newEnv(t, Array, "")
	mustAdd(t, e.File, objectsFrom(0, 3)...)
	whole := e.text(t)
	e.put(t, strings.TrimSuffix(whole, closing)+",\n")
	zinotest.Equal(t, "the contents", contents(t, e.File), `{"n":0} {"n":1} {"n":2}`)
	zinotest.Equal(t, "the events", e.kinds(), "repaired")
	zinotest.Equal(t, "the file", e.text(t), whole)
}

// TestWriteFails makes the write of an append fail after every number of bytes. The
// file must be unchanged, and the next append must work.
func TestWriteFails(t *testing.T) {
	if zinotest.Alone(t) {
		return
	}
	for what, framing := range framings {
		for _, stored := range []int{0, 1, 5} {
			e := newEnv(t, framing, "")
			mustAdd(t, e.File, objectsFrom(0, stored)...)
			before := ""
			if stored > 0 {
				before = e.text(t)
			}
			for room := range 20 {
				lift := zinotest.LimitFileSize(t, uint64(len(before)+room))
				err := e.Append(objectsFrom(70, 73))
				lift()
				zinotest.Error(t, err, syscall.EFBIG)
				if stored == 0 {
					zinotest.Equal(t, "the directory", zinotest.Names(t, e.dir), "")
				} else if got := e.text(t); got != before {
					t.Fatalf("%s: room for %d bytes: the file became %q", what, room, got)
				}
			}
			mustAdd(t, e.File, object(stored))
			zinotest.Equal(t, "afterwards", contents(t, e.File), joined(objectsFrom(0, stored+1)))
			zinotest.Equal(t, "events", len(e.events), 0)
		}
	}
}

// TestRollBackFails checks that nothing is written after a write that could not be
// rolled back.
func TestRollBackFails(t *testing.T) {
	for what, framing := range framings {
		e := newEnv(t, framing, "")
		mustAdd(t, e.File, object(0))
		before := e.text(t)
		_ = e.Update(t.Context(), false, func(tx *Tx) error {
			tx.f.f.Close()
			zinotest.Error(t, tx.Append(objectsFrom(1, 2)), os.ErrClosed, "could not be restored")
			zinotest.Error(t, tx.Append(objectsFrom(1, 2)), nil, "the write before this one failed")
			return nil
		})
		zinotest.Equal(t, what, e.text(t), before)
	}
}

// TestSync checks that an append is synced before it is acknowledged, and rolled
// back if fdatasync fails; with NoSync only Sync syncs.
func TestSync(t *testing.T) {
	for what, framing := range framings {
		e := newEnv(t, framing, "")
		mustAdd(t, e.File, object(0))
		syncs, failed := 0, error(nil)
		e.sync = func(f *os.File, _ string) error {
			syncs++
			if text := e.text(t); failed != nil && !strings.Contains(text, `{"n":9}`) {
				t.Errorf("synced before the write: %q", text)
			}
			return failed
		}
		mustAdd(t, e.File, object(1))
		zinotest.Equal(t, what+": syncs with NoSync", syncs, 0)
		zinotest.Must(t, e.Sync())
		zinotest.Equal(t, what+": syncs with Sync", syncs, 1)
		e.opt.NoSync = false
		mustAdd(t, e.File, object(2), object(3))
		zinotest.Equal(t, what+": syncs without NoSync", syncs, 2)
		before := e.text(t)
		failed = syscall.EIO
		_, err := add(e.File, object(9))
		zinotest.Error(t, err, syscall.EIO)
		zinotest.Equal(t, what+": after a failed sync", e.text(t), before)
	}
}

// TestKilledWriters repeatedly kills processes that append to one file. The file
// must contain every acknowledged append once and in order.
func TestKilledWriters(t *testing.T) {
	for what, framing := range framings {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, framing, "")
			acked := map[string]int{} // pid to the number of acknowledged appends
			for range 20 {
				var wg sync.WaitGroup
				var mu sync.Mutex
				for range 2 {
					wg.Go(func() {
						lines := zinotest.KillAfter(t, zinotest.Command(t, "writer", e.dir, what), 1+rand.IntN(12))
						mu.Lock()
						defer mu.Unlock()
						for _, line := range lines {
							pid, n, _ := strings.Cut(line, " ")
							acked[pid], _ = strconv.Atoi(n)
						}
					})
				}
				wg.Wait()
				seen := map[string]int{}
				for _, o := range objectsIn(t, e.File) {
					var v struct{ Pid, I int }
					zinotest.Must(t, json.Unmarshal(o, &v))
					pid := strconv.Itoa(v.Pid)
					if n := seen[pid]; v.I != n/2 {
						t.Fatalf("process %s: number %d after %d objects", pid, v.I, n)
					}
					seen[pid]++
				}
				for pid, last := range acked {
					if seen[pid] < 2*last {
						t.Fatalf("process %s: %d acknowledged, %d objects are there", pid, last, seen[pid])
					}
				}
			}
			if len(acked) != 40 {
				t.Errorf("%d writers acknowledged something", len(acked))
			}
		})
	}
}

// writeForever appends pairs and prints its pid and the number of stored pairs.
func writeForever(args []string) error {
	root, err := os.OpenRoot(args[0])
	if err != nil {
		return err
	}
	f := New(root, name, Options{Framing: framings[args[1]], KeepOpen: true})
	for i := 0; ; i++ {
		pad := strings.Repeat("x", rand.IntN(9000))
		pair := [][]byte{fmt.Appendf(nil, `{"pid":%d,"i":%d,"pad":%q}`, os.Getpid(), i, pad), fmt.Appendf(nil, `{"pid":%d,"i":%d}`, os.Getpid(), i)}
		if err := f.Append(pair); err != nil {
			return err
		}
		if _, err := fmt.Println(os.Getpid(), i+1); err != nil {
			return err
		}
	}
}

func TestDiskFull(t *testing.T) {
	zinotest.SmallDisk(t, zinotest.Command(t, "full", t.TempDir()))
}

func fillDisk(args []string) error {
	for what, framing := range framings {
		dir := filepath.Join(args[0], what)
		if err := errors.Join(os.Mkdir(dir, 0o700), zinotest.Mount(dir, "size=64k", 0)); err != nil {
			return err
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		f, n := New(root, name, Options{Framing: framing}), 0
		big := []byte(`{"pad":"` + strings.Repeat("x", 10_000) + `"}`)
		for err = f.Append([][]byte{big}); err == nil; err = f.Append([][]byte{big}) {
			n++
		}
		if !errors.Is(err, syscall.ENOSPC) || n == 0 {
			return fmt.Errorf("%s: %d appended, then %w", what, n, err)
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || framing == Array && !json.Valid(data) || bytes.Count(data, big) != n || bytes.Count(data, []byte("\n")) != n+int(framing) {
			return fmt.Errorf("%s: %d of %d objects are there: %w", what, bytes.Count(data, big), n, err)
		}
		if err := Replace(root, "other", make([]byte, 1<<20)); !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("replace on a full disk: %w", err)
		}
	}
	return nil
}

// TestTornAndFull checks that a torn end is not removed if it cannot be quarantined
// because the disk is full.
func TestTornAndFull(t *testing.T) {
	if zinotest.Alone(t) {
		return
	}
	const text = "{\"n\":0}\n{\"b\":\"xx"
	e := newEnv(t, Lines, text)
	lift := zinotest.LimitFileSize(t, 4)
	_, err := add(e.File, object(1))
	zinotest.Error(t, err, syscall.EFBIG)
	zinotest.Equal(t, "the file", e.text(t), text)
	zinotest.Equal(t, "read", contents(t, e.File), `{"n":0}`)
	lift()
	mustAdd(t, e.File, object(1))
	zinotest.Equal(t, "afterwards", contents(t, e.File), `{"n":0} {"n":1}`)
}

// TestDamagedAndFull reads a damaged array on a full disk: the readable elements
// are served, and an append fails without changing the file.
func TestDamagedAndFull(t *testing.T) {
	if zinotest.Alone(t) {
		return
	}
	const text = "[\n{\"a\":1},\n{\"b\":\"xx"
	e := newEnv(t, Array, text)
	lift := zinotest.LimitFileSize(t, 4)
	defer lift()
	zinotest.Equal(t, "read", contents(t, e.File), `{"a":1}`)
	zinotest.Error(t, e.Append(objectsFrom(0, 1)), nil, "damaged and could not be repaired")
	zinotest.Equal(t, "the file", e.text(t), text)
	zinotest.Must(t, e.View(func(tx *Tx) error {
		s, err := tx.Span(Mark{})
		if err != nil || len(s.Salvaged) != 1 || !s.All || s.To != 0 || e.Unchanged(s.Version) {
			t.Errorf("%+v, %v", s, err)
		}
		return tx.Repair()
	}))
	lift()
	mustAdd(t, e.File, object(0))
	zinotest.Equal(t, "afterwards", contents(t, e.File), `{"a":1} {"n":0}`)
	zinotest.Equal(t, "the directory", zinotest.Names(t, e.dir), name+" "+name+".damaged-1")
	if e.events[0].Err == nil || !strings.Contains(e.events[0].String(), "could not be rewritten") {
		t.Errorf("events %v", e.events)
	}
}

func TestForeignArrays(t *testing.T) {
	const two = `{"a":[1,{"b":"]"}]} {"c":"<\n>"}`
	for what, c := range map[string]struct{ text, want, events string }{
		"one line":         {`[{"a":[1,{"b":"]"}]}, {"c":"<\n>"}]`, two, "converted"},
		"indented":         {"[\n  {\n    \"a\": [\n      1,\n      {\n        \"b\": \"]\"\n      }\n    ]\n  },\n  {\n    \"c\": \"<\\n>\"\n  }\n]\n", two, "converted"},
		"ours":             {"[\n{\"a\":[1,{\"b\":\"]\"}]},\n{\"c\":\"<\\n>\"}\n]", two, ""},
		"ours, newline":    {"[\n{\"a\":[1,{\"b\":\"]\"}]},\n{\"c\":\"<\\n>\"}\n]\n", two, ""},
		"ours, much space": {"[\n{\"a\":1},\n{\"b\":2}\n\n\n            \n]\n\n\n\n\n\n\n", `{"a":1} {"b":2}`, ""},
		"DOS":              {"[\r\n{\"a\":1},\r\n{\"b\":2}\r\n]\r\n", `{"a":1} {"b":2}`, ""},
		"head in line":     {"[{\"a\":1},\n{\"b\":2}]", `{"a":1} {"b":2}`, "converted"},
		"byte order mark":  {"\ufeff[{\"a\":1}]", `{"a":1}`, "converted"},
		"blank lines":      {"[\n\n{\"a\":1}\n,\n{\"b\":2}\n]", `{"a":1} {"b":2}`, "converted"},
		"empty":            {"[]", "", ""},
		"empty, spaced":    {" [ \n ] \n", "", ""},
		"nested last":      {"[\n[\n{\"a\":1},\n{\"b\":2}\n]\n]", `[{"a":1},{"b":2}]`, "converted"},
		"other values":     {`[1,"x",null,true,[]]`, `1 "x" null true []`, "converted"},
		"duplicate keys":   {"[{\"a\":1,\n\"a\":2}]", `{"a":1,"a":2}`, "converted"},
	} {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, Array, c.text)
			zinotest.Equal(t, "the contents", contents(t, e.File), c.want)
			zinotest.Equal(t, "the events", e.kinds(), c.events)
			mustAdd(t, e.File, object(7))
			zinotest.Equal(t, "after an append", contents(t, e.File), strings.TrimSpace(c.want+" "+string(object(7))))
			if !json.Valid([]byte(e.text(t))) {
				t.Errorf("file %q", e.text(t))
			}
			zinotest.Equal(t, "the directory", zinotest.Names(t, e.dir), name)
		})
	}
}

func TestDamagedArrays(t *testing.T) {
	for what, c := range map[string]struct{ text, want string }{
		"garbage":           {"no array at all", ""},
		"cut in an element": {"[\n{\"a\":1},\n{\"b\":\"xxxx", `{"a":1}`},
		"indented, cut":     {"[\n  {\n    \"a\": 1\n  },\n  {\n    \"b\": ", `{"a":1}`},
		"zeros within":      {"[\n{\"a\":1},\n\x00\x00\x00\x00:2},\n{\"c\":3},\n{\"d\":4}\n]", `{"a":1} {"c":3} {"d":4}`},
		"head lost":         {"\x00\x00\x00a\":1},\n{\"b\":2}\n]", `{"b":2}`},
		"JSON lines":        {"{\"a\":1}\n{\"b\":2}\n", `{"a":1} {"b":2}`},
		"an object":         {`{"a":1}`, `{"a":1}`},
		"no commas":         {"[\n{\"a\":1}\n{\"b\":2}\n]", `{"a":1} {"b":2}`},
		"two arrays":        {"[\n{\"a\":1}\n][\n{\"b\":2}\n]", `{"a":1} {"b":2}`},
		"one line, broken":  {`[{"a":1},{"b":oops},{"c":3}]`, `{"a":1} {"c":3}`},
		"text after it":     {"[\n{\"a\":1}\n] and more", `{"a":1}`},
		"a number":          {"42", ""},
		"bad UTF-8":         {"[\n{\"a\":\"x\xffy\"},\n{\"b\":\"\xe2\x82\"},\n{\"c\":3}\n]", "{\"a\":\"x\ufffdy\"} {\"b\":\"\ufffd\"} {\"c\":3}"},
		"and cut":           {"[\n{\"a\":\"\xff\"},\n", "{\"a\":\"\ufffd\"}"},
		"and broken":        {"[{\"a\":oops},{\"b\":\"\xff\"}]", "{\"b\":\"\ufffd\"}"},
	} {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, Array, c.text)
			zinotest.Equal(t, "the contents", contents(t, e.File), c.want)
			if len(e.events) != 1 || e.events[0].Kind != Damaged || e.events[0].Name != name || e.events[0].Kept != name+".damaged-1" || !strings.Contains(e.events[0].String(), e.events[0].Kept) {
				t.Errorf("events %v", e.events)
			}
			zinotest.Equal(t, "the quarantined file", zinotest.Read(t, e.path+".damaged-1"), c.text)
			if !utf8.ValidString(e.text(t)) {
				t.Errorf("the file is not UTF-8: %q", e.text(t))
			}
			mustAdd(t, e.File, object(7))
			zinotest.Equal(t, "after an append", contents(t, e.File), strings.TrimSpace(c.want+" "+string(object(7))))
			checkArray(t, e.text(t))
		})
	}
}

// TestDamagedParts checks that IsElement excludes objects inside a lost element.
func TestDamagedParts(t *testing.T) {
	e := newEnv(t, Array, "[\n{\"e\":[{\"p\":1}]},\n{\"e\":[{\"p\":2},{\"p\":3}],\n{\"e\":[{\"p\":4}]}\n]")
	e.opt.IsElement = func(b []byte) bool { return bytes.HasPrefix(b, []byte(`{"e"`)) }
	zinotest.Equal(t, "the contents", contents(t, e.File), `{"e":[{"p":1}]} {"e":[{"p":4}]}`)
}

// TestDamageBeforeTheEnd checks that damage before the last window is found and
// repaired when it is read.
func TestDamageBeforeTheEnd(t *testing.T) {
	e := newEnv(t, Array, strings.Replace(string(arrayOf(objectsFrom(0, 5000))), `{"n":20}`, `{"n"=20}`, 1))
	mustAdd(t, e.File, object(5000))
	if list, err := e.Last(3, 0); err != nil || len(list) != 3 || len(e.events) != 0 {
		t.Fatalf("the end: %s, %v, %v", list, err, e.events)
	}
	list, err := e.Last(0, 0)
	if err != nil || len(list) != 5000 || e.kinds() != "damaged" {
		t.Errorf("%d elements, %v, %v", len(list), err, e.events)
	}
	checkArray(t, e.text(t))
}

func TestForeignLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine+100)
	for what, c := range map[string]struct{ text, want, events string }{
		"empty":           {"", "", ""},
		"no break":        {`{"a":1}`, `{"a":1}`, ""},
		"DOS":             {"{\"a\":1}\r\n{\"b\":2}\r\n", `{"a":1} {"b":2}`, ""},
		"byte order mark": {"\ufeff{\"a\":1}\n", `{"a":1}`, ""},
		"mark, no break":  {"\ufeff{\"a\":1}", `{"a":1}`, ""},
		"blank lines":     {"\n\n  \n{\"a\":1}\n \n", `{"a":1}`, ""},
		"not objects":     {"1\nx y\n[{}]\n{\"a\":1}\n{\n", `1 x y [{}] {"a":1} {`, ""},
		"zeros":           {"{\"a\":1}\n\x00\x00\x00", `{"a":1}`, ""},
		"zeros at once":   {"{\"a\":1}\x00\x00", `{"a":1}`, ""},
		"spaces":          {"{\"a\":1}  ", `{"a":1}`, ""},
		"text":            {"a note\nof mine", "a note", "cut"},
		"too long":        {long + "\n{\"a\":1}\n", fmt.Sprint(len(long)+1) + ` {"a":1}`, ""},
	} {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, Lines, "")
			e.put(t, c.text)
			zinotest.Equal(t, "read", contents(t, e.File), c.want)
			zinotest.Equal(t, "the file", e.text(t), c.text)
			mustAdd(t, e.File, object(7))
			zinotest.Equal(t, "after an append", contents(t, e.File), strings.TrimSpace(c.want+" "+string(object(7))))
			zinotest.Equal(t, "the events", e.kinds(), c.events)
		})
	}
}

// TestForeignEnd checks that an append refuses a file whose incomplete last line is
// longer than MaxLine.
func TestForeignEnd(t *testing.T) {
	text := "{\"a\":1}\n" + strings.Repeat("\xff", MaxLine+1)
	e := newEnv(t, Lines, text)
	zinotest.Equal(t, "read", contents(t, e.File), `{"a":1}`)
	_, err := add(e.File, object(7))
	zinotest.Error(t, err, nil, "not written by this program")
	if e.text(t) != text || len(e.events) != 0 {
		t.Errorf("the file changed, events %v", e.events)
	}
}

// TestCut checks that an incomplete last line is quarantined, and that Remove
// deletes the quarantined files.
func TestCut(t *testing.T) {
	e := newEnv(t, Lines, "{\"a\":1}\n{\"b\":")
	mustAdd(t, e.File, object(0))
	e.put(t, "{\"a\":1}\nmore")
	mustAdd(t, e.File, object(1))
	for i, want := range []string{`{"b":`, "more"} {
		kept := fmt.Sprintf("%s.damaged-%d", name, i+1)
		if ev := e.events[i]; ev.Kind != Cut || ev.Kept != kept || !strings.Contains(ev.String(), kept) {
			t.Errorf("event %v", ev)
		}
		zinotest.Equal(t, kept, zinotest.Read(t, filepath.Join(e.dir, kept)), want)
	}
	e.put(t, "{\"a\":1}\n")
	zinotest.Write(t, e.path+"x.damaged-1", "another file's")
	zinotest.Must(t, e.Remove())
	zinotest.Equal(t, "the directory", zinotest.Names(t, e.dir), name+"x.damaged-1")
}

func TestWriteNew(t *testing.T) {
	root := openRoot(t, t.TempDir())
	zinotest.Must(t, writeNew(root, "copy", []byte("damaged"), true))
	zinotest.Error(t, writeNew(root, "copy", nil, false), fs.ErrExist)
}

// FuzzArray checks for any file that a valid array keeps its elements, that
// anything else is repaired into a valid array, and that an append then works.
func FuzzArray(f *testing.F) {
	for _, s := range []string{
		"", "[]", "[1,2]", "[\n{\"a\":1}\n]", "[\n{\"a\":1},\n{\"b", "{\"a\":1}\n{\"b\":2}", "[\n{},\n\n]", "[{}\v\n]",
		"[\n{\"a\":\n1},\n{\"b\":2}\n]", "\x00\x00]", "\ufeff[{}]", "[\n[\n{}\n]\n]", "[\n{}\n]\n{}\n]", "[{\"a\":\"\xff\"}]", "[\n{},\n\x00{}\n]", "[\n]\n]", "[\n1,\n]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := newEnv(t, Array, string(data))
		list, err := e.Last(0, 0)
		zinotest.Must(t, err)
		var want []json.RawMessage
		if json.Unmarshal(data, &want) == nil && bytes.HasPrefix(trim(data), []byte("[")) {
			if len(list) != len(want) {
				t.Fatalf("%d elements of %d: %q", len(list), len(want), list)
			}
			for i := range list {
				var a, b bytes.Buffer
				if json.Compact(&a, list[i]) != nil || json.Compact(&b, bytes.ToValidUTF8(want[i], []byte("\ufffd"))) != nil || a.String() != b.String() {
					t.Fatalf("element %d is %q, was %q", i, list[i], want[i])
				}
			}
			if utf8.Valid(data) && strings.Contains(e.kinds(), "damaged") {
				t.Fatalf("a valid array was treated as damaged: %v", e.events)
			}
		}
		mustAdd(t, e.File, object(1))
		again, err := e.Last(0, 0)
		if err != nil || !slices.EqualFunc(again, append(list, object(1)), bytes.Equal) {
			t.Fatalf("after an append: %q, %v; before: %q", again, err, list)
		}
		if text := e.text(t); !json.Valid([]byte(text)) || !utf8.ValidString(text) {
			t.Fatalf("not a valid file: %q", text)
		}
		two, err := e.Last(2, 0)
		if err != nil || !slices.EqualFunc(two, again[max(0, len(again)-2):], bytes.Equal) {
			t.Fatalf("the last two: %q, %v", two, err)
		}
	})
}

// FuzzLines checks for any file that the reported offsets are the beginnings of
// lines, and that an append works and keeps the earlier lines.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"", "\n", "{}", "{}\n", "{\"a\":1}\n{\"b", "{\"a\":1}\r\n\r\n{\"b\":2}", "\x00\x00", "{}\x00\n\x00", "\ufeff{}", "\ufeff\n{}\n", "[{}]\n1\n\"x\"\n{}",
		"{\"a\":\"\xff\"}\n", "{\"a\":\"\xff\"}", "{}{}\n", "{} \t\r", " {}", "{}\n\xff", "{\n}\n", strings.Repeat("{}\n", 300) + "x",
	} {
		f.Add([]byte(s))
	}
	rest := func(t *testing.T, f *File, place int64) (list []string) {
		for line, err := range f.From(place) {
			zinotest.Must(t, err)
			list = append(list, string(line.Text))
		}
		return list
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := newEnv(t, Lines, "")
		e.put(t, string(data))
		var before []string
		var places []int64
		for line, err := range e.From(0) {
			zinotest.Must(t, err)
			if line.IsObject() != (len(line.Text) > 0 && line.Text[0] == '{' && json.Valid(line.Text)) {
				t.Fatalf("%q: an object: %v", line.Text, line.IsObject())
			}
			before, places = append(before, string(line.Text)), append(places, line.Next)
		}
		end := mustAdd(t, e.File, object(1))
		want := append(before, string(object(1)))
		if got := rest(t, e.File, 0); !slices.Equal(got, want) {
			t.Fatalf("after an append %q, before %q", got, before)
		}
		if len(places) > 0 {
			i := rand.IntN(len(places))
			if got := rest(t, e.File, places[i]); !slices.Equal(got, want[i+1:]) {
				t.Fatalf("from %d: %q, want %q", places[i], got, want[i+1:])
			}
		}
		if got := rest(t, e.File, end); len(got) != 0 || int64(len(e.text(t))) != end {
			t.Fatalf("the end is %d of %q", end, e.text(t))
		}
	})
}
