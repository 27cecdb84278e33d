package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestUndo takes back the changes of a turn: exc does it, the event is stored, and the
// next turn's model reads of it. Nothing is stored of a refusal and of a dry run.
func TestUndo(t *testing.T) {
	b := newRealEnv(t, whole)
	var asked rpctest.Record[proto.Undo]
	answer := proto.Undone{Turn: "t-1", Restored: []string{"a.go", "d/"}, Removed: []string{"b.go"}, Refused: []proto.UndoRefused{}}
	handle := func(_ context.Context, req proto.Undo) (proto.Undone, error) {
		asked.Add(req)
		return answer, nil
	}
	rpctest.New(t, "exc", b.cfg.Exc.Socket, func(s *rpc.Server) {
		rpc.Handle(s, proto.ExcUndo, handle)
		rpc.Handle(s, proto.ExcRedo, handle)
		rpc.Handle(s, proto.ExcDiff, func(_ context.Context, req proto.Undo) (proto.TurnDiff, error) {
			return proto.TurnDiff{Turn: req.Turn, Diff: "--- a\n", Files: []proto.DiffFile{}}, nil
		})
	})
	daemon := rpctest.Client(t, "daemon", b.cfg.Daemon.Socket)
	undo := func(m proto.Method[proto.Undo, proto.Undone], req proto.Undo) proto.Undone {
		t.Helper()
		req.SessionID = "s-1"
		reply, err := rpc.Call(t.Context(), daemon, m, req)
		zinotest.Must(t, err)
		return reply
	}
	_, err := rpc.Call(t.Context(), daemon, proto.DaemonUndo, proto.Undo{SessionID: "s-1"})
	zinotest.Error(t, err, proto.ErrNotFound, `no session "s-1"`)
	_, err = rpc.Call(t.Context(), daemon, proto.DaemonUndo, proto.Undo{SessionID: "../x"})
	zinotest.Error(t, err, proto.ErrInvalid, "invalid session name")
	b.turn(`{"message":"go","session_id":"s-1","root":"/r"}`)
	stored := len(b.file("s-1"))

	reply := undo(proto.DaemonUndo, proto.Undo{DryRun: true, Paths: []string{"d"}, Partial: true})
	zinotest.Equal(t, "restored", strings.Join(reply.Restored, " "), "a.go d/")
	if req := asked.All()[0]; !req.DryRun || !req.Partial || req.SessionID != "s-1" || strings.Join(req.Paths, "") != "d" {
		t.Errorf("exc was asked %+v", req)
	}
	zinotest.Equal(t, "events", len(b.file("s-1")), stored)
	undo(proto.DaemonUndo, proto.Undo{})
	undo(proto.DaemonRedo, proto.Undo{})
	answer = proto.Undone{Turn: "t-1", Restored: []string{}, Removed: []string{}, Refused: []proto.UndoRefused{{Path: "a.go", Reason: "changed"}}}
	zinotest.Equal(t, "refused", undo(proto.DaemonUndo, proto.Undo{}).Refused[0].Reason, "changed")
	diff, err := rpc.Call(t.Context(), daemon, proto.DaemonDiff, proto.Undo{SessionID: "s-1", Turn: "t-1"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "diff", diff.Turn+diff.Diff, "t-1--- a\n")
	equalLists(t, "events", b.file("s-1")[stored:], []string{
		`{"type":"undo","turn":"t-1","restored":["a.go","b.go"]}`,
		`{"type":"undo","turn":"t-1","restored":["a.go","b.go"],"redo":true}`,
	})

	b.turn(`{"message":"on","session_id":"s-1","root":"/r"}`)
	runs := b.runs.All()
	messages := string(runs[len(runs)-1].Messages)
	zinotest.Contains(t, "the messages", messages,
		`{"role":"user","content":"[The user took back the file changes of turn t-1: a.go, b.go]"},`+
			`{"role":"user","content":"[The user restored the file changes of turn t-1: a.go, b.go]"},{"role":"user","content":"on"}]`)
}

// TestUndoFinished stores the event of an undo although exc is killed before its answer,
// or the daemon before it has stored that.
func TestUndoFinished(t *testing.T) {
	b := newRealEnv(t, whole)
	b.turn(`{"message":"go","session_id":"s-1","root":"/r"}`)
	stored := len(b.file("s-1"))
	asked := make(chan string, 10)
	rpctest.Play(t, b.cfg.Exc.Socket, func(n int, c *rpctest.Conn) {
		asked <- c.Receive()
		switch n {
		case 1:
			c.Send(`{"type":"undone","turn":"t-1","restored":["a.go"],"removed":[],"refused":[]}`)
		case 2:
			c.Send(`{"type":"error","message":"none","code":"not_found"}`)
		case 3:
			c.Send(`{"type":"undone","turn":"t-1","restored":["b.go"],"removed":[],"refused":[]}`)
		}
	})
	daemon := rpctest.Client(t, "daemon", b.cfg.Daemon.Socket)
	reply, err := rpc.Call(t.Context(), daemon, proto.DaemonUndo, proto.Undo{SessionID: "s-1"})
	if err != nil || reply.Turn != "t-1" {
		t.Errorf("%+v, %v", reply, err)
	}
	zinotest.Contains(t, "the request", <-asked, `"type":"undo"`, `"id":"`)
	zinotest.Contains(t, "the next", <-asked, `"recover":true`)
	mark := filepath.Join(b.cfg.Daemon.DataDir, "undo", "s-1.json")
	for _, redo := range []string{"undo", "redo"} { // exc does not know the first one
		zinotest.Write(t, mark, `{"id":"u1","redo":`+strconv.FormatBool(redo == "redo")+`}`)
		b.turn(`{"message":"on","session_id":"s-1","root":"/r"}`)
		zinotest.Contains(t, "exc is asked", <-asked, `{"type":"`+redo+`",`, `"session_id":"s-1","id":"u1","recover":true}`)
		if _, err := os.Stat(mark); !os.IsNotExist(err) {
			t.Errorf("the mark is left: %v", err)
		}
	}
	var events []string
	for _, event := range b.file("s-1")[stored:] {
		if strings.HasPrefix(event, `{"type":"undo"`) {
			events = append(events, event)
		}
	}
	equalLists(t, "events", events, []string{`{"type":"undo","turn":"t-1","restored":["a.go"]}`, `{"type":"undo","turn":"t-1","restored":["b.go"],"redo":true}`})
}

// TestUndoDuringTurn answers busy while a turn of the session is open.
func TestUndoDuringTurn(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	b := newRealEnv(t, func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		close(begun)
		select {
		case <-end:
			return proto.Text{}, errors.New("enough")
		case <-ctx.Done():
			return proto.Text{}, ctx.Err()
		}
	})
	daemon := rpctest.Client(t, "daemon", b.cfg.Daemon.Socket)
	c := b.dial()
	c.Send(`{"message":"go","session_id":"s-1","root":"/r"}`)
	zinotest.Receive(t, "the turn begins", begun)
	_, err := rpc.Call(t.Context(), daemon, proto.DaemonUndo, proto.Undo{SessionID: "s-1"})
	zinotest.Error(t, err, proto.ErrBusy, "session s-1 has an open turn t-", "zino stop s-1")
	_, err = rpc.Call(t.Context(), daemon, proto.DaemonDiff, proto.Undo{SessionID: "s-1"})
	zinotest.Error(t, err, proto.ErrBusy, "open turn")
	close(end)
	c.Rest()
}
