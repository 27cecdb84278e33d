package repl

import (
	"testing"

	"zino/services/repl/page"
	"zino/services/repl/tail"
)

// TestAppended: what others have put behind an edit before it was looked at is
// not taken for known.
func TestAppended(t *testing.T) {
	edit := page.Edit{Changed: true, From: 10, Text: []byte("ours\n")}
	for _, c := range []struct {
		view tail.View
		want bool
	}{
		{tail.View{Offset: 4, Bytes: []byte("before" + "ours\n")}, false},
		{tail.View{Offset: 4, Bytes: []byte("before" + "ours\n" + "theirs\n")}, true},
		{tail.View{Offset: 10, Bytes: []byte("ours\n")}, false},
		{tail.View{Offset: 10, Bytes: []byte("ours\n```")}, true},
	} {
		if got := appended(&c.view, edit); got != c.want {
			t.Errorf("%d %q: %v", c.view.Offset, c.view.Bytes, got)
		}
	}
}
