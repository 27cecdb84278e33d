package proto_test

import (
	"errors"
	"fmt"
	"testing"

	"zino/proto"
)

// sentinels are those of all codes.
var sentinels = map[proto.Code]error{
	proto.CodeInvalid: proto.ErrInvalid, proto.CodeUnknown: proto.ErrUnknown, proto.CodeNotFound: proto.ErrNotFound,
	proto.CodeUnavailable: proto.ErrUnavailable, proto.CodeTimeout: proto.ErrTimeout, proto.CodeCanceled: proto.ErrCanceled,
	proto.CodeDenied: proto.ErrDenied, proto.CodeTooLarge: proto.ErrTooLarge, proto.CodeBusy: proto.ErrBusy,
	proto.CodeBudget: proto.ErrBudget, proto.CodeInternal: proto.ErrInternal,
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
	worded := &proto.Error{Code: proto.CodeBusy, Message: "again"}
	if errors.Is(&proto.Error{Code: proto.CodeBusy, Message: "again"}, worded) {
		t.Error("an error with a message of its own is no sentinel")
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

func TestStreaming(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, req := range []interface{ Streaming() bool }{proto.Chat{Stream: stream}, proto.Run{Stream: &stream}, proto.Infer{Stream: stream}} {
			if req.Streaming() != stream {
				t.Errorf("%+v: Streaming() = %v", req, req.Streaming())
			}
		}
	}
}
