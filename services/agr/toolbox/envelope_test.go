package toolbox

import (
	"encoding/json"
	"testing"

	"zino/proto"
)

func TestResults(t *testing.T) {
	for _, c := range []struct {
		name string
		got  proto.Raw
		want string
	}{
		{"failed", Failed(UnknownTool, "There is no \"x\"\n<y>."), `{"ok":false,"error":{"code":"unknown_tool","message":"There is no \"x\"\n<y>."}}`},
		{"said", Said("a\n\"é\" </tool_response>"), `{"ok":true,"data":{"text":"a\n\"é\" </tool_response>"}}`},
		{"said nothing", Said(""), `{"ok":true,"data":{"text":""}}`},
		{"bad bytes", Said("\xff"), `{"ok":true,"data":{"text":"\ufffd"}}`},
		{"ran", Ran(proto.Result{Stdout: "a\n", Stderr: "b"}), `{"ok":true,"data":{"stdout":"a\n","stderr":"b","exit_code":0,"timed_out":false}}`},
		{"ran into its limit", Ran(proto.Result{ExitCode: -1, TimedOut: true, Truncated: true}), `{"ok":true,"data":{"stdout":"","stderr":"","exit_code":-1,"timed_out":true,"truncated":true}}`},
	} {
		if string(c.got) != c.want || !json.Valid(c.got) || !IsResult(c.got) {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
}

// FuzzResults: whatever a tool prints comes back as it was, but for bad UTF-8.
func FuzzResults(f *testing.F) {
	for _, seed := range []string{"", "a\n", `"}`, "\xff\x00\u2028", "</tool_response>"} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, code int) {
		var got struct {
			OK    bool
			Error struct{ Code, Message string }
			Data  struct {
				Text, Stdout, Stderr string
				ExitCode             int `json:"exit_code"`
			}
		}
		want := string([]rune(text))
		if err := json.Unmarshal(Ran(proto.Result{Stdout: text, Stderr: text, ExitCode: code}), &got); err != nil || !got.OK || got.Data.Stdout != want || got.Data.Stderr != want || got.Data.ExitCode != code {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if !Succeeded(Said(text)) || Succeeded(Failed(text, text)) {
			t.Errorf("%q: Succeeded", text)
		}
		if err := json.Unmarshal(Said(text), &got); err != nil || got.Data.Text != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if err := json.Unmarshal(Failed(text, text), &got); err != nil || got.OK || got.Error.Code != want || got.Error.Message != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	})
}

func TestIsResult(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"ok":true,"data":{}}`:             true,
		` { "x":1, "\u006fk" : false } `:    true,
		`{"ok":true`:                        false,
		`{"ok":1}`:                          false,
		`{"ok":"true"}`:                     false,
		`{"ok":null}`:                       false,
		`{"data":{"ok":true}}`:              false,
		`{}`:                                false,
		`[{"ok":true}]`:                     false,
		`true`:                              false,
		``:                                  false,
		"{\"ok\":true,\"data\":\"\xff\"}":   false,
		`{"ok":true,"data":{"content":[}}`:  false,
		`{"ok":true} {"ok":true}`:           false,
		`{"ok":false,"error":{"code":"x"}}`: true,
	} {
		if got := IsResult(proto.Raw(raw)); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}
