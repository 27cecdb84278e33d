package proto_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"zino/proto"
)

// sentinels are those of all codes.
var sentinels = map[proto.Code]error{
	proto.CodeInvalid: proto.ErrInvalid, proto.CodeUnknown: proto.ErrUnknown, proto.CodeNotFound: proto.ErrNotFound,
	proto.CodeUnavailable: proto.ErrUnavailable, proto.CodeTimeout: proto.ErrTimeout, proto.CodeCanceled: proto.ErrCanceled,
	proto.CodeDenied: proto.ErrDenied, proto.CodeTooLarge: proto.ErrTooLarge, proto.CodeBusy: proto.ErrBusy,
	proto.CodeBudget: proto.ErrBudget, proto.CodeLimit: proto.ErrLimit, proto.CodeInternal: proto.ErrInternal,
	proto.CodeLoop: proto.ErrLoop, proto.CodeApproval: proto.ErrApproval,
}

// TestEveryCodeHasASentinel also holds the list above against the source.
func TestEveryCodeHasASentinel(t *testing.T) {
	for _, code := range readSource(t).codes {
		if sentinels[proto.Code(code.Name)] == nil {
			t.Errorf("the code %s has no sentinel", code.Name)
		}
	}
}

func TestErrorIs(t *testing.T) {
	for code := range sentinels {
		err := fmt.Errorf("wrapped: %w", &proto.Error{Code: code, Message: "what happened", Service: "mem"})
		for other, sentinel := range sentinels {
			if got := errors.Is(err, sentinel); got != (code == other) {
				t.Errorf("an error of code %s is %v: %v", code, sentinel, got)
			}
		}
	}
	custom := &proto.Error{Code: proto.CodeBusy, Message: "again"}
	if errors.Is(&proto.Error{Code: proto.CodeBusy, Message: "again"}, custom) {
		t.Error("an error with a message of its own matched as a sentinel")
	}
	if errors.Is(proto.ErrBusy, errors.ErrUnsupported) {
		t.Error("an error of another type matched")
	}
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]error{"what happened": &proto.Error{Message: "what happened", Code: proto.CodeBusy}, "busy": proto.ErrBusy} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

func TestErrorf(t *testing.T) {
	if e := proto.Errorf(proto.CodeBusy, "%d%%", 5); e.Error() != "5%" || e.Code != proto.CodeBusy || e.Kind != "" {
		t.Errorf("%+v", e)
	}
	if e := proto.SessionErrorf(proto.CodeInvalid, "no %s", "x"); e.Error() != "no x" || e.Kind != proto.ErrorKindSession {
		t.Errorf("%+v", e)
	}
}

func TestParseLevel(t *testing.T) {
	for _, level := range proto.Levels {
		if got, err := proto.ParseLevel(string(level)); got != level || err != nil {
			t.Errorf("ParseLevel(%q) = %q, %v", level, got, err)
		}
		if level.Confined() != (level != proto.LevelOff) {
			t.Errorf("%q: Confined() = %v", level, level.Confined())
		}
	}
	for _, name := range []string{"", "OFF", "none"} {
		if got, err := proto.ParseLevel(name); got != "" || !errors.Is(err, proto.ErrInvalid) {
			t.Errorf("ParseLevel(%q) = %q, %v", name, got, err)
		}
	}
}

func TestSessionID(t *testing.T) {
	a, b := proto.NewSessionID(), proto.NewSessionID()
	if uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`); !uuid.MatchString(a) || a == b {
		t.Errorf("new ids %s, %s: want two UUIDs of version 4", a, b)
	}
	for _, id := range []string{a, "x", "0", "_a", "a.b-c_d", "grün", "é", strings.Repeat("a", 200)} {
		if err := proto.CheckSessionID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", ".", "..", ".a", "-a", "a/b", "../x", "a b", "a\x00", "a\xff", "a\n", strings.Repeat("a", 201)} {
		err := proto.CheckSessionID(id)
		if !errors.Is(err, proto.ErrInvalid) || len(err.Error()) > 300 {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestPublic lists what clients may forward, so that an addition is deliberate.
func TestPublic(t *testing.T) {
	var got []string
	for _, m := range proto.Methods() {
		if m.Public {
			got = append(got, m.Service+"."+m.Type)
		}
	}
	want := "mem.get_attachment *.ping *.describe *.stats exc.capabilities exc.jobs exc.job_output exc.job_wait exc.job_stop exc.job_keep mcp.servers mcp.test mcp.login_begin mcp.login_end mcp.logout mcp.secret_set mcp.forget mcp.reload mem.get_history mem.append_history mem.clear_history mem.search_hard mem.store_hard " +
		"mem.list_hard mem.get_hard mem.update_hard mem.delete_hard mem.list_proposals mem.accept_proposal mem.reject_proposal mem.embed_hard mem.list_channels mem.get_soft mem.set_soft rtr.capabilities rtr.usage rtr.models " +
		"mem.read_session mem.list_sessions mem.find_session mem.search_sessions mem.recall_sessions mem.fork_session mem.export_session mem.remove_session sys.get exc.undo_remove"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("public methods:\n%s\nwant\n%s", text, want)
	}
	if proto.IsPublic("mem", "append_session") || proto.IsPublic("exc", "execute") || !proto.IsPublic("agr", "ping") || !proto.IsPublic("mem", "get_soft") {
		t.Error("IsPublic disagrees with Methods")
	}
}

func TestStreaming(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, req := range []interface{ Streaming() bool }{proto.Chat{Stream: stream}, proto.Run{Stream: &stream}, proto.Infer{Stream: stream}} {
			if req.Streaming() != stream {
				t.Errorf("%+v: Streaming() = %v", req, req.Streaming())
			}
		}
	}
}
