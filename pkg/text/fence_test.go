package text_test

import (
	"regexp"
	"strings"
	"testing"

	"zino/pkg/text"
)

var (
	opener = regexp.MustCompile("^ {0,3}(?:(`{3,})([^`]*)|(~{3,})(.*))$")
	closer = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})[ \t]*$")
)

// FuzzFence compares Next with a simple parser.
func FuzzFence(f *testing.F) {
	for _, s := range []string{
		"text\n```js\na\n```\n", "````\n", "   ```JavaScript x=1\n", "    ```js\n", "````md\n```js\ntext()\n```\n````\n", "```\n\u00a0```\n```\u00a0\n",
		"```\n~~~\n```\n~~~\n```~~~\n~~~`\n", "````js\n```\n````` \n ``` `\n  ~~~~ ~\n~~~\n~~~~~\t\n", "```\r\n\xff\x00\r```",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var fence text.Fence
		open := ""
		for i, line := range strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s), "\n") {
			want := text.Inside
			if open == "" {
				want = text.Outside
				if m := opener.FindStringSubmatch(line); m != nil {
					open, want = m[1]+m[3], text.Opens
				}
			} else if m := closer.FindStringSubmatch(line); m != nil && strings.HasPrefix(m[1], open) {
				open, want = "", text.Closes
			}
			if got := fence.Next([]byte(line)); got != want {
				t.Fatalf("line %d of %q is %d, want %d", i, s, got, want)
			}
		}
	})
}
