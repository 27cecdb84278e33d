package turn

import (
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// newMem returns a daemon that forwards to a mem with sessions of these ids.
func newMem(t *testing.T, ids ...string) *connect.Daemon {
	t.Helper()
	mem, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemFindSession, func(_ context.Context, req proto.FindSession) (proto.SessionSummary, error) {
			var found []string
			for _, id := range ids {
				if id == req.SessionID {
					return proto.SessionSummary{SessionID: id}, nil
				}
				if strings.HasPrefix(id, req.SessionID) {
					found = append(found, id)
				}
			}
			switch len(found) {
			case 0:
				return proto.SessionSummary{}, proto.Errorf(proto.CodeNotFound, "no session %q", req.SessionID)
			case 1:
				return proto.SessionSummary{SessionID: found[0]}, nil
			}
			return proto.SessionSummary{}, proto.Errorf(proto.CodeInvalid, "several sessions begin with %q", req.SessionID)
		})
	})
	socket, _ := rpctest.New(t, "daemon", "", func(s *rpc.Server) {
		rpc.HandleRelay(s, proto.DaemonForward, func(ctx context.Context, req proto.Forward, out *rpc.Out) error {
			c := &rpc.Client{Service: req.Service, Path: mem}
			defer c.Close()
			return rpc.Relay(ctx, c, req.Request, out)
		})
	})
	return connect.At(connect.Place{Socket: socket})
}

// TestNamed checks which words name a session, and the texts for those that do not.
func TestNamed(t *testing.T) {
	d := newMem(t, "5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a", "be11aaaa-9f1c-4f0e-8f5b-1f6e1d2c3b4a", "abcd1", "abcd2", "ab")
	defer d.Close()
	for words, want := range map[string]string{
		"5b0c":                     "5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a",
		"5b":                       "5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a",
		"5b0c use the other file":  "5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a",
		"ab is the whole id":       "ab",
		"":                         "zino stop: name one session by its id, or by the beginning of it; try zino stop --help",
		"the":                      `No session "the".`,
		"../x":                     `No session "../x".`,
		"abcd":                     `several sessions begin with "abcd"`,
		"abcd this one":            `several sessions begin with "abcd"`,
		"the nginx service":        `No session "the". To send this as a message: zino -- stop the nginx service`,
		"be careful":               `No session "be". To send this as a message: zino -- stop be careful`,
		"abc ambiguous and short":  `No session "abc". To send this as a message: zino -- stop abc ambiguous and short`,
		"what? is $HOME's content": `No session "what?". To send this as a message: zino -- stop 'what?' is '$HOME'\''s' content`,
	} {
		found, err := Named(t.Context(), &cobra.Command{Use: "stop", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "zino stop"}}, d, strings.Fields(words))
		got := found.SessionID
		if err != nil {
			got = err.Error()
		}
		zinotest.Equal(t, words, got, want)
		if _, usage := err.(render.UsageError); usage != (strings.Contains(want, "zino -- ") || words == "") {
			t.Errorf("%s: %T", words, err)
		}
	}
}
