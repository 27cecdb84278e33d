package cli

import (
	"strings"
	"testing"
)

func TestNormalize(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", ""},
		{"-ch kitchen hello you", "--channel kitchen hello you"},
		{"-ch=kitchen hello", "--channel=kitchen hello"},
		{"-ch= hello", "--channel= hello"},
		{"--channel=x -c f", "--channel=x -c f"},
		{"-c hx -chx", "-c hx -chx"},
		{"-- -ch kitchen", "-- -ch kitchen"},
		{"--resume 5b0c --model m", "resume 5b0c --model m"},
		{"exec --resume", "exec --resume"},
		{"-ch a -- -ch b", "--channel a -- -ch b"},
	} {
		if got := strings.Join(normalize(strings.Fields(test.args)), " "); got != test.want {
			t.Errorf("%q becomes %q, want %q", test.args, got, test.want)
		}
	}
}

// TestMessageArguments checks which arguments become the message.
func TestMessageArguments(t *testing.T) {
	for _, test := range []struct {
		args             []string
		message, channel string
		stream           bool
	}{
		{[]string{"hello", "you"}, "hello you", "", false},
		{[]string{"one line"}, "one line", "", false},
		{[]string{"--", "hello"}, "hello", "", false},
		{[]string{"--", "-x", "--stream"}, "-x --stream", "", false},
		{[]string{"--", "status"}, "status", "", false},
		{[]string{"hello"}, "hello", "", false},
		{[]string{"hi"}, "hi", "", false},
		{[]string{"warum?"}, "warum?", "", false},
		{[]string{"-s", "hello"}, "hello", "", true},
		{[]string{"hello", "--stream"}, "hello", "", true},
		{[]string{"-ch", "kitchen", "hello"}, "hello", "kitchen", false},
		{[]string{"-ch=kitchen", "hello", "you"}, "hello you", "kitchen", false},
		{[]string{"--channel=kitchen", "hello"}, "hello", "kitchen", false},
		{[]string{"two\nlines"}, "two\nlines", "", false},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "")
			expect(t, newWorld(t).command(append([]string{"--socket", f.socket}, test.args...)...), "", 0, "echo: "+test.message+"\n", "")
			if n := len(f.requests()); n != 1 {
				t.Fatalf("%d requests", n)
			}
			if got := f.requests()[0]; got.Message != test.message || got.ChannelID != test.channel || got.Stream != test.stream || !got.NeedModel {
				t.Errorf("sent %+v", got)
			}
		})
	}
}
