package wire

import (
	"net/http"
	"testing"

	"zino/proto"
)

func TestComplaint(t *testing.T) {
	for _, tt := range []struct {
		in, message string
		status      int
	}{
		{`{"error":{"message":"m","code":500}}`, "m", 500},
		{`{"error":{"message":"m","code":"rate_limit_exceeded"}}`, "m", 0},
		{`{"error":{"message":"m","code":7}}`, "m", 0},
		{`{"error":"text"}`, "text", 0},
		{`{"error":"text","status":404}`, "text", 404},
		{`{"error":{"code":500}}`, "", 500},
		{`{"error":{"type":"overloaded_error","message":""}}`, "overloaded_error", 0},
		{`{"type":"error","error":{"type":"x","message":"m"}}`, "m", 0},
		{`{"error":null,"message":"m"}`, "m", 0},
		{`{"object":"error","message":"m","code":400}`, "m", 400},
		{`{"detail":"m"}`, "m", 0},
		{`{"detail":[{"msg":"m","type":"missing"}]}`, "m", 0},
		{`[{"error":{"message":"m","code":429}}]`, "m", 429},
		{`{"error":{"error":{"error":"deep"}}}`, "deep", 0},
		{`{"error":[]}`, "", 0},
		{`[]`, "", 0},
		{`{}`, "", 0},
		{`7`, "", 0},
		{`null`, "", 0},
		{`<html>`, "", 0},
		{``, "", 0},
		{`"  text "`, "text", 0},
	} {
		if message, status := complaint([]byte(tt.in)); message != tt.message || status != tt.status {
			t.Errorf("%s: got %q, %d; want %q, %d", tt.in, message, status, tt.message, tt.status)
		}
	}
}

func TestContent(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`null`, ""},
		{`""`, ""},
		{`"a\u00fc\n"`, "aü\n"},
		{`7`, ""},
		{`{"text":"a"}`, ""},
		{`[]`, ""},
		{`true`, ""},
		{`[{"type":"text","text":"a"},{"type":"image_url","image_url":{}},{"type":"text","text":"b"}]`, "ab"},
		{`[{"text":null},{"text":7}]`, ""},
		{`["a"]`, ""},
		{`"\ud800"`, "\uFFFD"},
	} {
		if got := contentOf([]byte(tt.in)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestCodes(t *testing.T) {
	for status, want := range map[int]proto.Code{
		304: proto.CodeUnavailable, 400: proto.CodeInvalid, 401: proto.CodeDenied, 402: proto.CodeDenied, 403: proto.CodeDenied,
		404: proto.CodeNotFound, 408: proto.CodeTimeout, 409: proto.CodeBusy, 413: proto.CodeTooLarge, 429: proto.CodeBusy,
		http.StatusInternalServerError: proto.CodeUnavailable, 529: proto.CodeUnavailable,
	} {
		if got := codeOf(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}
