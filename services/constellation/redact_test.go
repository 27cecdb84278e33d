package constellation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestRedactSession masks what the user and the model have written, while a client follows
// the session: the client gets an error, and every old offset is invalid. The session can
// be used afterwards.
func TestRedactSession(t *testing.T) {
	secret := "gh" + "p_" + zinotest.Random(1, 36, zinotest.Letters)
	hold, err := json.Marshal(map[string]any{"command": "while [ -e hold ]; do sleep 0.01; done"})
	zinotest.Must(t, err)
	e := newAgents(t, func(cfg *config.Config) { cfg.Mem.SessionIndex = true },
		fakellm.Turn{Match: "begin", Text: "The token is " + secret + ", remember it."},
		fakellm.Turn{Match: "wait", Calls: []fakellm.Call{{Name: "bash", Args: string(hold)}}},
		fakellm.Turn{Text: "Again."})
	e.begin(proto.TurnStart{})
	e.end("parent")
	recall := func() string {
		return ask(t, e.cfg.Daemon.Socket, `{"type":"forward","service":"mem","request":{"type":"recall_sessions","query":"token remember"}}`)[0]
	}
	zinotest.Contains(t, "recalled", recall(), secret)
	index := filepath.Join(e.cfg.Mem.DataDir, "sessions", ".recall")
	zinotest.Contains(t, "the index", zinotest.Names(t, index), "parent")

	live, followed := make(chan bool), make(chan error)
	var offsets []int64
	go func() {
		_, err := rpc.CallEvents(t.Context(), e.daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: "parent", From: new(int64), Until: proto.UntilClose}, func(typ string, payload []byte) error {
			var at struct{ Next int64 }
			if json.Unmarshal(payload, &at) == nil && at.Next > 0 {
				offsets = append(offsets, at.Next)
			}
			if typ == proto.TypeLive {
				close(live)
			}
			return nil
		})
		followed <- err
	}()
	<-live
	redact := func(request string) string { return strings.Join(ask(t, e.cfg.Daemon.Socket, request), "\n") }
	zinotest.Equal(t, "a dry run", redact(`{"type":"redact","session_id":"parent","dry_run":true}`), "{\"type\":\"redacted\",\"what\":\"session\",\"name\":\"parent\",\"masked\":1}\n{\"type\":\"redact_done\",\"masked\":1}")
	zinotest.Contains(t, "the session after it", zinotest.Read(t, e.file("parent")), secret)
	zinotest.Contains(t, "redact", redact(`{"type":"redact","session_id":"parent"}`), `{"type":"redact_done","masked":1}`)
	if err := <-followed; !errors.Is(err, proto.ErrInvalid) {
		t.Errorf("the follower got %v", err)
	}
	if text := zinotest.Read(t, e.file("parent")); strings.Contains(text, secret) || !strings.Contains(text, `"redacted":"20`) {
		t.Errorf("the session: %s", text)
	}
	if names := zinotest.Names(t, index); strings.Contains(names, "parent") {
		t.Errorf("the index for recall has %s", names)
	}
	if len(offsets) < 2 {
		t.Errorf("the follower has seen the offsets %v", offsets)
	}
	for _, from := range offsets {
		got := ask(t, e.cfg.Daemon.Socket, fmt.Sprintf(`{"type":"turn_follow","session_id":"parent","from":%d}`, from))
		zinotest.Contains(t, "an old offset", lastOf(got), `"code":"invalid"`)
	}
	got := strings.Join(ask(t, e.cfg.Daemon.Socket, `{"type":"turn_follow","session_id":"parent","from":0}`), "\n")
	zinotest.Contains(t, "followed again", got, "[masked:github:", `"state":"done"`)
	if strings.Contains(got+recall(), secret) {
		t.Errorf("a follower gets the secret: %s", got)
	}

	// While a turn is open nothing is changed.
	zinotest.Write(t, filepath.Join(e.root, "hold"), "")
	_, err = rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{Message: "wait, " + secret, SessionID: "parent", Root: e.root})
	zinotest.Must(t, err)
	before := zinotest.Read(t, e.file("parent"))
	zinotest.Contains(t, "an open turn", redact(`{"type":"redact","session_id":"parent"}`), `"code":"busy"`)
	zinotest.Contains(t, "an open turn among all", redact(`{"type":"redact","all":true}`), `"left":"session parent has an open turn`)
	zinotest.Contains(t, "the session", zinotest.Read(t, e.file("parent")), before)
	zinotest.Must(t, os.Remove(filepath.Join(e.root, "hold")))
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Contains(t, "redact again", redact(`{"type":"redact","session_id":"parent"}`), `"masked":1}`)
	requests := e.provider.Requests()
	zinotest.Contains(t, "the request of the turn after the redaction", string(requests[1].Body), "[masked:github:")

	for _, request := range []string{`{"type":"redact"}`, `{"type":"redact","session_id":"a","all":true}`, `{"type":"redact","session_id":"a","undo":true}`, `{"type":"redact","session_id":"../a"}`} {
		zinotest.Contains(t, request, redact(request), `"code":"invalid"`)
	}
	zinotest.Contains(t, "an unknown session", redact(`{"type":"redact","session_id":"none"}`), `"code":"not_found"`)
}
