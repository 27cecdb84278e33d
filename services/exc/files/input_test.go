package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestInput(t *testing.T) {
	dir := place(t)
	path := put(t, dir, "file", "text")
	f := New()
	tests := []struct {
		name  string
		call  tool
		input string
		want  string // part of the message; empty: it is good
	}{
		{"no input", f.Read, "", "The arguments are not a JSON object."},
		{"null", f.Read, "null", "expected a JSON object"},
		{"list", f.Read, `["file"]`, "expected a JSON object"},
		{"string", f.Read, `"file"`, "expected a JSON object"},
		{"cut", f.Read, `{"path":"file"`, "malformed"},
		{"two", f.Read, `{"path":"file"}{}`, "cannot be used"},
		{"bad UTF-8", f.Read, "{\"path\":\"\xff\"}", "not valid UTF-8"},
		{"what the model wrote", f.Read, `{"_malformed":"{path: file"}`, "The arguments are not a JSON object."},
		{"nothing", f.Read, `{}`, `missing field "path"`},
		{"null path", f.Read, `{"path":null}`, `missing field "path"`},
		{"other case", f.Read, `{"Path":"file"}`, `missing field "path"`},
		{"number", f.Read, `{"path":5}`, `field "path": expected a string, found a number`},
		{"list of paths", f.Read, `{"path":["file"]}`, "found a list"},
		{"unknown keys", f.Read, `{"path":"file","limit":5,"x":{"path":6}}`, ""},
		{"twice", f.Read, `{"path":"gone","path":"file"}`, ""},
		{"no content", f.Write, `{"path":"file"}`, `missing field "content"`},
		{"null content", f.Write, `{"path":"file","content":null}`, `missing field "content"`},
		{"content is an object", f.Write, `{"path":"file","content":{"a":1}}`, "found an object"},
		{"no path", f.Write, `{"content":"x"}`, `missing field "path"`},
		{"no old", f.Edit, `{"path":"file","new":"x"}`, `missing field "old"`},
		{"no new", f.Edit, `{"path":"file","old":"text"}`, `missing field "new"`},
		{"half expected", f.Edit, `{"path":"file","old":"text","new":"text","expected_replacements":1.5}`, "whole number"},
		{"true expected", f.Edit, `{"path":"file","old":"text","new":"text","expected_replacements":true}`, "found true or false"},
		{"a word expected", f.Edit, `{"path":"file","old":"text","new":"text","expected_replacements":"one"}`, "expected a number"},
		{"endless expected", f.Edit, `{"path":"file","old":"text","new":"text","expected_replacements":1e99}`, "out of range"},
		{"one in a string", f.Edit, `{"path":"file","old":"text","new":"text","expected_replacements":" 1 "}`, ""},
	}
	for _, tt := range tests {
		reply, err := tt.call(context.Background(), dir, []byte(tt.input))
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if got := expect(t, reply, err, InvalidInput); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if holds(t, path) != "text" || names(t, dir) != "file" {
		t.Errorf("there are %s", names(t, dir))
	}
}

// Whatever a model makes up: a result or an error with a code, and files only
// where it named them.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		`{"path":"file"}`, `{"path":"a/b","content":"x"}`, `{"path":"file","old":"t","new":"u","expected_replacements":"2"}`,
		`{}`, `null`, `[]`, `{"path":5}`, `{"path":"\ud800"}`, `{"path":"file","old":"","new":""}`, `{"_malformed":"x"}`, "\xff", `{"path":"file\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	dir := place(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		var in struct {
			Path string `json:"path"`
		}
		if Decode(input, &in) == nil && (filepath.IsAbs(in.Path) || strings.Contains(in.Path, "..")) {
			return // that may be anything
		}
		box := filepath.Join(dir, "box")
		if err := errors.Join(os.RemoveAll(box), os.Mkdir(box, 0o700)); err != nil {
			t.Fatal(err)
		}
		put(t, box, "file", "text")
		tools := New()
		for _, call := range []tool{tools.Read, tools.Edit, tools.Write} {
			reply, err := call(context.Background(), box, input)
			if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Code == "" || e.Message == "") || err == nil && reply.Data == nil {
				t.Errorf("%q: %+v, %v", input, reply, err)
			}
		}
		if names(t, dir) != "box" {
			t.Errorf("%q made %s", input, names(t, dir))
		}
	})
}

func TestUnreadable(t *testing.T) {
	tests := []struct {
		err           error
		code, message string
	}{
		{&os.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}, "ENOENT", "File not found: /x"},
		{&os.PathError{Op: "read", Path: "/x", Err: syscall.EIO}, "EIO", "/x: input/output error"},
		{syscall.EMFILE, "EMFILE", "/x: too many open files"},
		{syscall.EXDEV, ReadError, "/x: invalid cross-device link"},
		{os.ErrDeadlineExceeded, Timeout, "/x: i/o timeout"},
		{&os.LinkError{Op: "rename", Old: "/t", New: "/x", Err: syscall.EACCES}, "EACCES", "/x: permission denied"},
		{os.NewSyscallError("setxattr", syscall.ENOSPC), ReadError, "/x: no space left on device"},
	}
	for _, tt := range tests {
		e, ok := errors.AsType[*Error](unreadable(tt.err, "/x"))
		if !ok || *e != (Error{tt.code, tt.message}) {
			t.Errorf("%v: got %+v", tt.err, e)
		}
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"/a/b-c_d.e+1": "/a/b-c_d.e+1", "": "''", "a b": "'a b'", "a'b": `'a'\''b'`, "$x": "'$x'", "ä": "'ä'", "~": "'~'",
	} {
		if got := shellWord(text); got != want {
			t.Errorf("%q: got %s", text, got)
		}
	}
}
