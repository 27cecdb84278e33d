package files

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// newHelper serves files in this process: its sandbox only explains errors.
func newHelper(t *testing.T, sandbox Sandbox) *Helper {
	t.Helper()
	h, served := connect(t, func(c net.Conn) { Serve(c, sandbox) })
	t.Cleanup(func() { h.Close(); <-served })
	return h
}

// connect returns a Helper whose other side is served by serve, and a channel that is
// closed when serve has returned.
func connect(t *testing.T, serve func(net.Conn)) (h *Helper, served chan struct{}) {
	t.Helper()
	l := zinotest.Listen(t, "")
	conn, err := net.Dial("unix", l.Addr().String())
	zinotest.Must(t, err)
	theirs, err := l.Accept()
	zinotest.Must(t, err)
	served = make(chan struct{})
	go func() { defer close(served); defer theirs.Close(); serve(theirs) }()
	return NewHelper(conn.(*net.UnixConn)), served
}

// Nothing is changed before the plan is approved, and a plan has all that a
// decision needs.
func TestPlan(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "old text\n")
	zinotest.Must(t, os.Link(path, filepath.Join(dir, "link")))
	h := newHelper(t, Sandbox{Root: dir, Write: true})
	st := stat(t, path)
	file := &File{st.Dev, st.Ino, 2}
	for _, tt := range []struct {
		tool string
		a    args
		want Plan
	}{
		{Read, args{"path": "file"}, Plan{Path: path, File: file, Content: &Content{Path: path, Content: "old text\n", Bytes: 9}}},
		{Write, args{"path": "file", "content": "new\n"}, Plan{Path: path, File: file, Before: sum([]byte("old text\n")), After: sum([]byte("new\n")), Diff: "--- file\n+++ file\n@@ -1 +1 @@\n-old text\n+new\n"}},
		{Edit, args{"path": "file", "old": "old", "new": "new"}, Plan{Path: path, File: file, Before: sum([]byte("old text\n")), After: sum([]byte("new text\n")), Diff: "--- file\n+++ file\n@@ -1 +1 @@\n-old text\n+new text\n"}},
		{Write, args{"path": "a/b/new", "content": ""}, Plan{Path: dir + "/a/b/new", After: sum(nil)}},
	} {
		refused := errors.New("refused")
		for _, refuse := range []error{refused, nil} {
			_, err := h.Do(t.Context(), 0, Call{Tool: tt.tool, Root: dir, Input: tt.a.input()}, func(p Plan) error {
				if p.File != nil && tt.want.File != nil && *p.File == *tt.want.File {
					p.File = tt.want.File
				}
				if p.Content != nil && tt.want.Content != nil && *p.Content == *tt.want.Content {
					p.Content = tt.want.Content
				}
				if p != tt.want {
					t.Errorf("%s: got %+v", tt.tool, p)
				}
				if zinotest.Read(t, path) != "old text\n" || zinotest.Names(t, dir) != "file link" {
					t.Errorf("%s: it was changed before the decision", tt.tool)
				}
				return refuse
			})
			if !errors.Is(err, refuse) {
				t.Errorf("%s: got %v, want %v", tt.tool, err, refuse)
			}
		}
		put(t, dir, "file", "old text\n")
	}
	zinotest.Equal(t, "a new file", zinotest.Read(t, dir+"/a/b/new"), "")
	link(t, dir, map[string]string{"odd": "\xff"})
	_, err := h.Do(t.Context(), 0, Call{Tool: Write, Root: dir, Input: args{"path": "odd/x", "content": ""}.input()}, func(p Plan) error {
		zinotest.Equal(t, "a path that is not UTF-8", p.Path, dir+"/\xff/x")
		return nil
	})
	zinotest.Must(t, err)
}

// Replies and errors of all tools are passed through the connection unchanged.
func TestHelperReplies(t *testing.T) {
	dir := newDir(t)
	h := newHelper(t, Sandbox{Root: dir, Write: true, Hidden: []string{dir + "/keys"}})
	zinotest.Must(t, os.Mkdir(dir+"/keys", 0o700))
	link(t, dir, map[string]string{"out": dir + "-elsewhere", "secret": "keys/id", "loop": "loop"})
	approve := func(Plan) error { return nil }
	for _, tt := range []struct {
		tool string
		a    args
		want any // the data, or the code of an error
		text string
	}{
		{Write, args{"path": "file", "content": "a\xff\x00"}, nil, ""},
		{Write, args{"path": "file", "content": "text"}, Written{dir + "/file", 4, false}, ""},
		{Edit, args{"path": "named/file", "old": "text", "new": "new"}, PathError, "File not found"},
		{Edit, args{"path": "/named/file", "old": "text", "new": "new"}, Edited{dir + "/file", 1}, ""},
		{Read, args{"path": "file"}, Content{Path: dir + "/file", Content: "new", Bytes: 3}, ""},
		{Edit, args{"path": "file", "old": "gone", "new": ""}, OldNotFound, "0 occurrences"},
		{Read, args{"path": "gone"}, "ENOENT", "File not found: " + dir + "/gone"},
		{Read, args{"path": "out/x"}, Denied, dir + "/out/x: the sandbox lets only files below the directory to work in and those of the system be read."},
		{Read, args{"path": "secret"}, Denied, "the sandbox lets only files"},
		{Edit, args{"path": "out/x", "old": "a", "new": "b"}, Denied, dir + "/out/x lies outside of " + dir + ", and the sandbox lets nothing else be written."},
		{Edit, args{"path": "secret", "old": "a", "new": "b"}, Denied, "the sandbox lets only files"},
		{Read, args{"path": "loop"}, "ELOOP", "symbolic links"},
		{Edit, args{"path": "loop", "old": "a", "new": "b"}, PathError, "symbolic links"},
		{"rm", args{"path": "file"}, InvalidInput, "unknown tool"},
	} {
		reply, err := h.Do(t.Context(), time.Minute, Call{Tool: tt.tool, Root: dir, Named: "/named", Input: tt.a.input()}, approve)
		if code, ok := tt.want.(string); ok {
			if errorCode(err) != code || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s %v: got %+v, %v", tt.tool, tt.a, reply, err)
			}
		} else if err != nil || tt.want != nil && reply.Data != tt.want {
			t.Errorf("%s %v: got %+v, %v", tt.tool, tt.a, reply, err)
		}
	}
	for _, s := range []Sandbox{{Root: dir}, {Write: true}} {
		_, err := Do(t.Context(), Call{Tool: Write, Root: dir, Input: args{"path": "sub/new", "content": "x"}.input()}, &s, approve)
		if errorCode(err) != Denied || !strings.Contains(err.Error(), dir+"/sub/new: the sandbox lets nothing be written.") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// A caller that is gone, or whose time is over, changes nothing that was not
// approved; an approved change is completed.
func TestHelperStops(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "old")
	c := Call{Tool: Write, Root: dir, Input: args{"path": "file", "content": "new"}.input()}
	ctx, hangUp := context.WithCancel(t.Context())
	h := newHelper(t, Sandbox{Root: dir, Write: true})
	_, err := h.Do(ctx, 0, c, func(Plan) error { hangUp(); return nil })
	if !errors.Is(err, context.Canceled) || zinotest.Read(t, path) != "old" {
		t.Errorf("hung up: %v, it holds %q", err, zinotest.Read(t, path))
	}
	h = newHelper(t, Sandbox{Root: dir, Write: true})
	_, err = h.Do(t.Context(), 0, c, func(Plan) error {
		if _, err := h.Do(ctx, 0, c, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("hung up while another call is carried out: %v", err)
		}
		return os.ErrInvalid
	})
	if !errors.Is(err, os.ErrInvalid) || h.Closed() {
		t.Errorf("the other call: %v", err)
	}
	lock := lockAs(t, path, os.O_RDONLY)
	h = newHelper(t, Sandbox{Root: dir, Write: true})
	if _, err := h.Do(t.Context(), time.Millisecond, c, nil); errorCode(err) != Timeout {
		t.Errorf("locked: %v", err)
	}
	ctx, hangUp = context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := h.Do(ctx, 0, c, nil)
		done <- err
	}()
	hangUp()
	if err := <-done; !errors.Is(err, context.Canceled) || !h.Closed() && err == nil {
		t.Errorf("hung up while it waits: %v", err)
	}
	lock.Close()
	zinotest.Equal(t, "the file", zinotest.Read(t, path), "old")
}

// A helper that has ended, or cannot work, is another error than a failed call.
func TestHelperEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		serve func(net.Conn)
		want  func(error) bool
	}{
		"gone":       {func(c net.Conn) {}, func(err error) bool { return errors.Is(err, ErrGone) }},
		"broken":     {func(c net.Conn) { Refuse(c, errors.New("no mounts")) }, func(err error) bool { b, ok := errors.AsType[*Broken](err); return ok && b.Why == "no mounts" }},
		"no answer":  {func(c net.Conn) { io.Copy(io.Discard, c) }, func(err error) bool { return errors.Is(err, ErrNoAnswer) }},
		"malformed":  {func(c net.Conn) { c.Write([]byte("nonsense")) }, func(err error) bool { return errors.Is(err, ErrGone) }},
		"in between": {func(c net.Conn) { c.Read(make([]byte, 1<<20)) }, func(err error) bool { return errors.Is(err, ErrGone) }},
	} {
		h, ended := connect(t, tt.serve)
		if name == "gone" || name == "broken" {
			<-ended
		}
		_, err := h.Do(t.Context(), time.Millisecond, Call{Tool: Read}, nil)
		if !tt.want(err) || !h.Closed() {
			t.Errorf("%s: %v, closed: %v", name, err, h.Closed())
		}
		<-ended
	}
}

// In a sandbox the files of other users are overwritten: a new file cannot get
// their owner.
func TestOtherOwnerInSandbox(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "old")
	give(t, path)
	was := stat(t, path)
	call := Call{Tool: Write, Root: dir, Input: args{"path": "file", "content": "new"}.input()}
	_, err := Do(t.Context(), call, &Sandbox{Root: dir, Write: true}, func(Plan) error { return nil })
	is := stat(t, path)
	if err != nil || is.Uid != was.Uid || (is.Ino == was.Ino) != (os.Geteuid() == 0) || zinotest.Read(t, path) != "new" || zinotest.Names(t, dir) != "file" {
		t.Errorf("%v, owner %d, was %d", err, is.Uid, was.Uid)
	}
}
