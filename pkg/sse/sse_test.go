package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// got is an event with its data copied.
type got struct {
	Name, Data string
	Cut        bool
}

// collect reads all events and the error that ended them.
func collect(src io.Reader) ([]got, error) {
	r := NewReader(src)
	var all []got
	for {
		ev, err := r.Next()
		if err != nil {
			return all, err
		}
		all = append(all, got{ev.Name, string(ev.Data), ev.Cut})
	}
}

func equal(a, b []got) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// streams are inputs with the events that they hold.
var streams = []struct {
	name, in string
	want     []got
}{
	{"nothing", "", nil},
	{"one", "data: a\n\n", []got{{Data: "a"}}},
	{"without the blank", "data:a\n\ndata:  b\n\n", []got{{Data: "a"}, {Data: " b"}}},
	{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []got{{Data: "a"}, {Data: "b"}}},
	{"cr", "data: a\r\rdata: b\r\r", []got{{Data: "a"}, {Data: "b"}}},
	{"mixed ends", "data: a\r\n\rdata: b\n\r\ndata: c\r\r\n", []got{{Data: "a"}, {Data: "b"}, {Data: "c"}}},
	{"several lines", "data: {\ndata:  \"a\": 1\ndata: }\n\n", []got{{Data: "{\n \"a\": 1\n}"}}},
	{"comments and blanks", ": ping\n\n\n: ping\n\n\r\n\ndata: a\n: inside\n\n\n\n", []got{{Data: "a"}}},
	{"name", "event: x\ndata: a\n\ndata: b\n\n", []got{{Name: "x", Data: "a"}, {Data: "b"}}},
	{"name without data", "event: x\n\ndata: b\n\n", []got{{Data: "b"}}},
	{"empty data", "data\n\ndata:\ndata:\n\n", []got{{Data: ""}, {Data: "\n"}}},
	{"other fields", "id: 7\nretry: 10\nfoo\ndata: a\n\n", []got{{Data: "a"}}},
	{"byte order mark", "\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []got{{Data: "a"}}},
	{"only a mark", "\xef\xbb\xbf", nil},
	{"no last line end", "data: a\n\ndata: [DONE]", []got{{Data: "a"}, {Data: "[DONE]", Cut: true}}},
	{"no last blank line", "data: a\n", []got{{Data: "a", Cut: true}}},
	{"characters", "data: grüße 🌍 日本\n\n", []got{{Data: "grüße 🌍 日本"}}},
	{"bad utf-8 and nul stay", "data: \xff\x00\n\n", []got{{Data: "\xff\x00"}}},
	{"colon in data", "data: a: b:c\n\n", []got{{Data: "a: b:c"}}},
	{"error field", "error: {\"code\":500}\n\n", []got{{Name: "error", Data: `{"code":500}`}}},
	{"bare error", "data: a\n\n{\"error\":\"x\"}\n", []got{{Data: "a"}, {Name: "error", Data: `{"error":"x"}`, Cut: true}}},
	{"long line", "data: " + strings.Repeat("é", 50_000) + "\n\n", []got{{Data: strings.Repeat("é", 50_000)}}},
}

func TestEvents(t *testing.T) {
	for _, tt := range streams {
		t.Run(tt.name, func(t *testing.T) {
			all, err := collect(strings.NewReader(tt.in))
			if err != io.EOF || !equal(all, tt.want) {
				t.Errorf("got %+v, %v; want %+v", all, err, tt.want)
			}
		})
	}
}

// TestCuts: the events do not depend on the cuts.
func TestCuts(t *testing.T) {
	for _, tt := range streams {
		t.Run(tt.name, func(t *testing.T) {
			all, err := collect(iotest.OneByteReader(strings.NewReader(tt.in)))
			if err != io.EOF || !equal(all, tt.want) {
				t.Errorf("byte by byte: got %+v, %v", all, err)
			}
			all, err = collect(iotest.DataErrReader(strings.NewReader(tt.in)))
			if err != io.EOF || !equal(all, tt.want) {
				t.Errorf("with the error in the last read: got %+v, %v", all, err)
			}
			for i := range min(len(tt.in), 200) + 1 {
				all, err := collect(io.MultiReader(strings.NewReader(tt.in[:i]), strings.NewReader(tt.in[i:])))
				if err != io.EOF || !equal(all, tt.want) {
					t.Errorf("cut at %d: got %+v, %v", i, all, err)
				}
			}
		})
	}
}

func TestBounds(t *testing.T) {
	tests := []struct {
		name string
		in   io.Reader
	}{
		{"line without end", &repeat{text: bytes.Repeat([]byte("x"), 4096)}},
		{"data without end", &repeat{text: []byte("data: " + strings.Repeat("x", 1000) + "\n")}},
		{"comment without end", io.MultiReader(strings.NewReader(": "), &repeat{text: bytes.Repeat([]byte("y"), 4096)})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := collect(tt.in)
			if !errors.Is(err, ErrTooLong) || len(all) != 0 {
				t.Errorf("got %d events, %v; want ErrTooLong", len(all), err)
			}
		})
	}
	t.Run("just below", func(t *testing.T) {
		text := strings.Repeat("x", MaxEvent-len("data: ")-2)
		all, err := collect(strings.NewReader("data: " + text + "\n\n"))
		if err != io.EOF || len(all) != 1 || all[0].Data != text {
			t.Errorf("got %d events, %v", len(all), err)
		}
	})
}

// repeat is a source without end.
type repeat struct {
	text []byte
	rest []byte
}

func (r *repeat) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		r.rest = r.text
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestSourceFails(t *testing.T) {
	boom := errors.New("boom")
	all, err := collect(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(boom)))
	if err != boom || !equal(all, []got{{Data: "a"}, {Data: "b", Cut: true}}) {
		t.Errorf("got %+v, %v", all, err)
	}
	_, err = collect(idle{})
	if err != io.ErrNoProgress {
		t.Errorf("a source that gives nothing: got %v", err)
	}
}

// idle is a source without data.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// TestReadsOnlyWhenEmpty: a Read of the source means that every complete event was
// returned. rtr relies on it.
func TestReadsOnlyWhenEmpty(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		reads := 0
		src := readFunc(func(p []byte) (int, error) {
			reads++
			return copy(p, strings.Repeat("data: a"+end+end, 3)), nil
		})
		r := NewReader(src)
		for i := range 9 {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
			if want := i/3 + 1; reads != want {
				t.Errorf("line end %q: %d reads after %d events, want %d", end, reads, i+1, want)
			}
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzEvents: no input breaks the reader, and cutting it in two or reading it byte
// by byte gives the same events.
func FuzzEvents(f *testing.F) {
	for _, tt := range streams {
		if len(tt.in) < 1000 {
			f.Add([]byte(tt.in), uint(len(tt.in)/2))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, at uint) {
		whole, err := collect(bytes.NewReader(in))
		if err != io.EOF {
			t.Fatalf("whole: %v", err)
		}
		single, err := collect(iotest.OneByteReader(bytes.NewReader(in)))
		if err != io.EOF || !equal(whole, single) {
			t.Fatalf("whole %+v, byte by byte %+v, %v", whole, single, err)
		}
		i := int(at % uint(len(in)+1))
		cut, err := collect(io.MultiReader(bytes.NewReader(in[:i]), bytes.NewReader(in[i:])))
		if err != io.EOF || !equal(whole, cut) {
			t.Fatalf("whole %+v, cut at %d %+v, %v", whole, i, cut, err)
		}
		for i, ev := range whole {
			if ev.Cut && i != len(whole)-1 {
				t.Fatalf("event %d of %d is marked as cut", i, len(whole))
			}
		}
	})
}
