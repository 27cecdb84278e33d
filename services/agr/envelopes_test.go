package agr

import (
	"encoding/json"
	"regexp"
	"testing"

	"zino/proto"
	"zino/services/agr/toolbox"
)

// ran is what the model is given in a session for code that printed a text.
func ran(stdout string) string { return string(toolbox.Ran(proto.Result{Stdout: stdout})) }

// brief shortens a result: the text of a success, or code and message.
func brief(t *testing.T, envelope string) string {
	t.Helper()
	var r struct {
		OK   *bool
		Data struct {
			Text, Stdout string
			Content      string
		}
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(envelope), &r); err != nil || r.OK == nil {
		t.Errorf("%q is no result: %v", envelope, err)
		return ""
	}
	if *r.OK {
		return r.Data.Text + r.Data.Stdout + r.Data.Content
	}
	return r.Error.Code + ": " + r.Error.Message
}

// madeUp are the identifiers that calls are given.
var madeUp = regexp.MustCompile(`"((?:tool_call_)?id)":"[A-Z2-7]{9}"`)

// nameless empties identifiers that were made up.
func nameless(messages []byte) string { return string(madeUp.ReplaceAll(messages, []byte(`"$1":""`))) }

// toolResults are the contents of the messages that answer calls in a request.
func toolResults(t *testing.T, req proto.Infer) (list []string) {
	t.Helper()
	var messages []struct{ Role, Content string }
	if err := json.Unmarshal(req.Messages, &messages); err != nil {
		t.Fatalf("%s: %v", req.Messages, err)
	}
	for _, m := range messages {
		if m.Role == "tool" {
			list = append(list, m.Content)
		}
	}
	return list
}
