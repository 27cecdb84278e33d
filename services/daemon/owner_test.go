package daemon

import (
	"fmt"
	"os"
	"reflect"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestSessionOwner checks what the first line of a session says for recall_sessions, and
// that the daemon's own user may search all sessions.
func TestSessionOwner(t *testing.T) {
	for more, want := range map[string]string{"": "", `,"recall":true`: "", `,"recall":false`: `,"recall":false`} {
		b := newSessionEnv(t, all(), whole)
		b.turn(`{"message":"hi","session_id":"s-1","root":"/r"` + more + `}`)
		zinotest.Equal(t, "header with "+more, b.mem.heads[0], fmt.Sprintf(`s-1 create {"root":"/r","uid":%d%s}`, os.Geteuid(), want))
		if owner := b.runs.All()[0].Owner; owner != nil {
			t.Errorf("agr was sent the owner %d", *owner)
		}
	}
}

// FuzzWithOwner checks that mem reads the owner that the daemon sets, and all else as it
// was sent.
func FuzzWithOwner(f *testing.F) {
	for _, request := range []string{
		`{"type":"recall_sessions","query":"a"}`, `{"query":"a","owner":7,"owner":8}`, `{"\u006fwner":7,"query":"\ud83d","Owner":7}`,
		` { "query" : "a" , "top_k" : 3 , "owner" : null } `, `{"owner":7}`, `{}`, `{"query":"a"`, `{"query":"a"}{"owner":7}`, `[{"owner":7}]`, `"owner"`,
	} {
		f.Add([]byte(request))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		var sent, got proto.RecallSessions
		sentErr := wire.DecodeReply(request, &sent)
		for _, owner := range []*int{nil, new(7)} {
			set, err := withOwner(request, owner)
			if err != nil {
				if sentErr == nil {
					t.Errorf("%q: %v", request, err)
				}
				continue
			}
			if err := wire.DecodeReply(set, &got); err != nil {
				if sentErr == nil {
					t.Errorf("%q became %q: %v", request, set, err)
				}
				continue
			}
			if !reflect.DeepEqual(got.Owner, owner) {
				t.Errorf("%q became %q: owner %v", request, set, got.Owner)
			}
			if got.Owner, sent.Owner = nil, nil; sentErr == nil && !reflect.DeepEqual(got, sent) {
				t.Errorf("%q became %q", request, set)
			}
		}
	})
}
