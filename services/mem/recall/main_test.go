package recall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/mem/session"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"builder": buildForever})
	os.Exit(m.Run())
}

// env is an index of a directory of sessions.
type env struct {
	*Index
	t        testing.TB
	dir      string
	problems []string
}

// newEnv opens the sessions in dir, or in a new directory if dir is empty.
func newEnv(t testing.TB, dir string) *env {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	e := &env{t: t, dir: dir}
	root, err := os.OpenRoot(dir)
	zinotest.Must(t, err)
	store := session.New(root, session.Options{NoSync: true, Removing: func(id string) error { return Forget(root, id) }})
	e.Index = New(root, store, func(problem string) {
		if problem != "" {
			e.problems = append(e.problems, problem)
		}
	})
	t.Cleanup(func() {
		e.Close()
		zinotest.Must(t, store.Close())
	})
	return e
}

func (e *env) path(id string) string { return filepath.Join(e.dir, session.LogName(id)) }

func (e *env) index(id string) string { return filepath.Join(e.dir, dirName, fileName(id)) }

// put appends events, and creates the session with the given header if it does not exist.
func (e *env) put(id, header string, events ...string) {
	e.t.Helper()
	var list []proto.Raw
	for _, event := range events {
		list = append(list, proto.Raw(event))
	}
	_, err := e.store.Append(e.t.Context(), proto.AppendSession{SessionID: id, Create: true, Header: proto.Raw(header)}, list)
	zinotest.Must(e.t, err)
}

// search waits until all sessions are indexed.
func (e *env) search(q Query) Result {
	e.t.Helper()
	if q.K == 0 {
		q.K = 1 << 20
	}
	for {
		found, err := e.Search(e.t.Context(), q)
		zinotest.Must(e.t, err)
		if found.Pending == 0 {
			return found
		}
	}
}

func said(role, text, ts string) string {
	return fmt.Sprintf(`{"type":"message","role":%q,"text":%s,"ts":%q}`, role, wire.AppendString(nil, text), ts)
}

func called(name, input, ts string) string {
	return fmt.Sprintf(`{"type":"tool_use","id":"1","name":%q,"input":%s,"ts":%q}`, name, input, ts)
}

func documentOf(text string) session.Document {
	return session.Document{Role: proto.RoleUser, Text: text}
}

const noon = "2026-11-21T12:00:00Z"

// buildForever searches a directory, again and again.
func buildForever(args []string) error {
	root, err := os.OpenRoot(args[0])
	if err != nil {
		return err
	}
	x := New(root, session.New(root, session.Options{}), func(string) {})
	x.buildTime = time.Millisecond
	for {
		found, err := x.Search(context.Background(), Query{Text: "word1 word2", K: 1})
		if err == nil && found.Searched == 0 && found.Pending == 0 {
			err = errors.New("nothing is searched")
		}
		if err != nil {
			return err
		}
		fmt.Println(found.Pending)
	}
}
