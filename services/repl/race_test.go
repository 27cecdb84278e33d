package repl

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"zino/proto"
)

// TestRace: several programs append requests while replies and background are
// written. Every request is there, has run once, and has its reply.
func TestRace(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	a := f.Attached()
	const writers, requests = 3, 25
	done := make(chan bool, writers)
	for w := range writers {
		go func() {
			defer func() { done <- true }()
			for i := range requests {
				b.add(a.File, js(fmt.Sprintf("w%d.%d.", w, i)))
				if _, err := b.Events(t.Context(), proto.RealmEvents{ID: a.ID, Nonce: a.Nonce, Events: []proto.RealmEvent{{Type: "console", Message: "m"}}}); err != nil {
					t.Error(err)
				}
				pause()
			}
		}()
	}
	for range writers {
		<-done
	}
	text := b.settled(a.File, writers*requests)
	ran := strings.Join(f.code(), "\n")
	for w := range writers {
		for i := range requests {
			code := fmt.Sprintf("w%d.%d.", w, i)
			if strings.Count(text, js(code)) != 1 || strings.Count(ran, code) != 1 {
				t.Errorf("%s is there %d times and ran %d times", code, strings.Count(text, js(code)), strings.Count(ran, code))
			}
		}
	}
}

// TestEditing: an editor saves the whole file again and again, in place, while
// requests of a program are run. What it adds is there in the end.
func TestEditing(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	file := f.Attached().File
	answered := make(chan bool)
	go func() {
		defer close(answered)
		for i := range 10 {
			if r, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: fmt.Sprint(i)}); err != nil || !r.OK {
				t.Errorf("%+v, %v", r, err)
			}
		}
	}()
	lines := 0
	for saving := true; saving || lines < 5; {
		select {
		case <-answered:
			saving = false
		default:
		}
		before := b.file(file)
		lines++
		whole := strings.Replace(before, "> This file", fmt.Sprintf("remark %d.\n> This file", lines), 1)
		if b.file(file) == before && whole != before { // as editors do, which ask before they overwrite what they did not see
			must(t, os.WriteFile(b.path(file), []byte(whole), 0o644))
		} else {
			lines--
		}
		pause()
	}
	text := b.await(file, func(text string) bool { return strings.HasSuffix(text, b.cfg.Footer+"\n") })
	if got := len(f.code()); got != 10 {
		t.Errorf("%d requests ran", got)
	}
	if !strings.Contains(text, fmt.Sprintf("remark %d.\n", lines)) {
		t.Errorf("the last remark, %d, is lost: %s", lines, text)
	}
}
