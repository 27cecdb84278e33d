package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

func TestInput(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "text")
	tests := []struct {
		name  string
		call  tool
		input string
		want  string // part of the message; empty: it is good
	}{
		{"no input", doRead, "", "The arguments are not a JSON object."},
		{"null", doRead, "null", "expected a JSON object"},
		{"list", doRead, `["file"]`, "expected a JSON object"},
		{"string", doRead, `"file"`, "expected a JSON object"},
		{"cut", doRead, `{"path":"file"`, "malformed"},
		{"two", doRead, `{"path":"file"}{}`, "cannot be used"},
		{"bad UTF-8", doRead, "{\"path\":\"\xff\"}", "not valid UTF-8"},
		{"what the model wrote", doRead, `{"_malformed":"{path: file"}`, "The arguments are not a JSON object."},
		{"nothing", doRead, `{}`, `missing field "path"`},
		{"null path", doRead, `{"path":null}`, `missing field "path"`},
		{"other case", doRead, `{"Path":"file"}`, `missing field "path"`},
		{"number", doRead, `{"path":5}`, `field "path": expected a string, found a number`},
		{"list of paths", doRead, `{"path":["file"]}`, "found a list"},
		{"unknown keys", doRead, `{"path":"file","limit":5,"x":{"path":6}}`, ""},
		{"twice", doRead, `{"path":"gone","path":"file"}`, ""},
		{"no content", doWrite, `{"path":"file"}`, `missing field "content"`},
		{"null content", doWrite, `{"path":"file","content":null}`, `missing field "content"`},
		{"content is an object", doWrite, `{"path":"file","content":{"a":1}}`, "found an object"},
		{"no path", doWrite, `{"content":"x"}`, `missing field "path"`},
		{"no old", doEdit, `{"path":"file","new":"x"}`, `missing field "old"`},
		{"no new", doEdit, `{"path":"file","old":"text"}`, `missing field "new"`},
		{"half expected", doEdit, `{"path":"file","old":"text","new":"text","expected_replacements":1.5}`, "whole number"},
		{"true expected", doEdit, `{"path":"file","old":"text","new":"text","expected_replacements":true}`, "found true or false"},
		{"a word expected", doEdit, `{"path":"file","old":"text","new":"text","expected_replacements":"one"}`, "expected a number"},
		{"endless expected", doEdit, `{"path":"file","old":"text","new":"text","expected_replacements":1e99}`, "out of range"},
		{"one in a string", doEdit, `{"path":"file","old":"text","new":"text","expected_replacements":" 1 "}`, ""},
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
	if zinotest.Read(t, path) != "text" || zinotest.Names(t, dir) != "file" {
		t.Errorf("there are %s", zinotest.Names(t, dir))
	}
}

// Any input gives a result or an error with a code, and makes files only where it
// names them.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		`{"path":"file"}`, `{"path":"a/b","content":"x"}`, `{"path":"file","old":"t","new":"u","expected_replacements":"2"}`,
		`{}`, `null`, `[]`, `{"path":5}`, `{"path":"\ud800"}`, `{"path":"file","old":"","new":""}`, `{"_malformed":"x"}`, "\xff", `{"path":"file\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	dir := newDir(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		var in struct {
			Path string `json:"path"`
		}
		if Decode(input, &in) == nil && (filepath.IsAbs(in.Path) || strings.Contains(in.Path, "..")) {
			return // that may be anything
		}
		box := filepath.Join(dir, "box")
		zinotest.Must(t, errors.Join(os.RemoveAll(box), os.Mkdir(box, 0o700)))
		put(t, box, "file", "text")
		for _, call := range []tool{doRead, doEdit, doWrite} {
			reply, err := call(context.Background(), box, input)
			if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Code == "" || e.Message == "") || err == nil && reply.Data == nil {
				t.Errorf("%q: %+v, %v", input, reply, err)
			}
		}
		zinotest.Equal(t, "left", zinotest.Names(t, dir), "box")
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
		zinotest.Equal(t, text, shellWord(text), want)
	}
}
