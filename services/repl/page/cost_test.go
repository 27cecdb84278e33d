package page

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// log returns a log of many exchanges, at least size bytes long.
func log(size int) []byte {
	var b bytes.Buffer
	b.WriteString("# index-7-zen-1a2b\n\n")
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "> **agent** to index-7-zen-1a2b at 01:02:03\n```js\nold%d()\n```\n> **index-7-zen-1a2b** to agent at 01:02:04 (17ms)\n```JSON\n%q\n```\n\n", i, strings.Repeat("x", 300))
	}
	b.WriteString("> Write code in a fenced JS block below to execute against this page.\n")
	return b.Bytes()
}

// exchange1 plays one exchange with everything in it.
func (w *world) exchange1() {
	w.t.Helper()
	w.append("Text\n```js\n1+1\n```\nmore\n```js\n2\n```\n")
	w.apply(Background{w.now, []Captured{{Type: "console.log", Message: "x"}}})
	w.pass(7 * time.Second)
	w.answer(time.Second, "2")
	w.answer(time.Second, "2")
	w.append("words\n")
	w.pass(5 * time.Second)
}

// TestCost: after the first scan, the number of bytes read does not depend on the length
// of the log.
func TestCost(t *testing.T) {
	var looked []int
	for _, size := range []int{200_000, 4_000_000} {
		w := newWorld(t, Options{})
		w.save(log(size))
		w.start()
		if w.scans != 1 || len(w.log) == 0 {
			t.Fatalf("%d scans at the start, %v", w.scans, w.log)
		}
		w.looked = 0
		w.exchange1() // the first tail may still be longer
		w.looked, w.scans = 0, 0
		for range 5 {
			w.exchange1()
		}
		w.rests()
		if w.scans != 0 || len(w.given) != 12 {
			t.Fatalf("%d scans, %d jobs", w.scans, len(w.given))
		}
		looked = append(looked, w.looked)
	}
	if looked[0] != looked[1] || looked[0] > 600_000 {
		t.Fatalf("looked at %d and %d bytes", looked[0], looked[1])
	}
	t.Logf("%d bytes in 5 exchanges", looked[0])
}

// TestMoved: an edit of the head of a long log costs no scan.
func TestMoved(t *testing.T) {
	w := newWorld(t, Options{})
	w.save(log(1_000_000))
	w.start()
	w.exchange1()
	w.scans = 0
	for _, cut := range []int{10, 5000, 60_000} {
		w.save(append([]byte("# An edited title\n"), w.file[cut:]...))
		w.changed()
		w.exchange1()
	}
	if w.scans != 0 || len(w.given) != 8 {
		t.Fatalf("%d scans, %d jobs", w.scans, len(w.given))
	}
	w.rests()
}

// TestReplaced replaces a long log by another file, while idle and while a request is
// executing.
func TestReplaced(t *testing.T) {
	for _, executing := range []bool{false, true} {
		for _, size := range []int{500, 30_000, 300_000, 600_000} {
			t.Run(fmt.Sprint(executing, size), func(t *testing.T) {
				w := newWorld(t, Options{})
				w.save(log(400_000))
				w.start()
				if executing {
					w.append("```js\n1\n```\n")
				}
				w.save(bytes.Replace(log(size), []byte("xxx"), []byte("yyy"), -1))
				w.changed()
				w.pass(3 * time.Second)
				w.append("```js\nnew()\n```\n")
				w.answer(0, "1")
				w.rests()
				if strings.Contains(strings.Join(w.log, "\n"), "old") || !strings.Contains(strings.Join(w.log, "\n"), "new()") {
					t.Fatalf("%s", strings.Join(w.log, "\n"))
				}
			})
		}
	}
}

func TestScanReader(t *testing.T) {
	p := New(Options{Name: "index-7-zen", ID: "1a2b"})
	text := bytes.ReplaceAll(log(300_000), []byte("\n"), []byte("\r\n"))
	whole := *p.scan(text)
	if whole.boundary == 0 || whole.eol != "\r\n" || whole.From != whole.boundary-reach {
		t.Fatalf("%+v", whole)
	}
	one, err := p.Scan(iotest.OneByteReader(bytes.NewReader(text)))
	if err != nil || !reflect.DeepEqual(*one, whole) {
		t.Fatalf("%+v, %v, want %+v", one, err, whole)
	}
	late, err := p.Scan(iotest.DataErrReader(bytes.NewReader(text)))
	if err != nil || !reflect.DeepEqual(*late, whole) {
		t.Fatalf("%+v, %v, want %+v", late, err, whole)
	}
	broken := errors.New("broken")
	if s, err := p.Scan(iotest.ErrReader(broken)); !errors.Is(err, broken) || s != nil {
		t.Fatalf("%v, %v", s, err)
	}
}

// FuzzScan: a log read in two pieces has the same scan, and its boundary is the begin
// of a line outside of any fence.
func FuzzScan(f *testing.F) {
	for _, s := range append(phrases, forged...) {
		f.Add([]byte(s+"text\n"+s), uint(len(s)))
	}
	f.Add(log(2000), uint(1000))
	f.Fuzz(func(t *testing.T, text []byte, at uint) {
		p := New(Options{Name: "index-7-zen", ID: "1a2b"})
		whole := *p.scan(text)
		s := newScanner(p)
		cut := int(at % uint(len(text)+1))
		s.write(text[:cut])
		s.write(text[cut:])
		if two := *s.close(); !reflect.DeepEqual(two, whole) {
			t.Fatalf("%+v in two pieces, %+v whole", two, whole)
		}
		in := false
		for l, line := range parts(text, 0) {
			if int64(l.from) == whole.boundary {
				if in {
					t.Fatalf("%d is inside of a fence in %q", whole.boundary, text)
				}
				return
			}
			in = line.fence.Char != 0
		}
		if int(whole.boundary) != len(text) {
			t.Fatalf("no line begins at %d in %q", whole.boundary, text)
		}
	})
}
