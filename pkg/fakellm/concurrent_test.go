package fakellm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestConcurrent checks that every request gets a different turn and is recorded.
func TestConcurrent(t *testing.T) {
	var script []Turn
	for i := range 30 {
		script = append(script, Turn{Text: fmt.Sprintf("answer %02d", i), Size: 3})
	}
	s := start(t, script...)
	var mu sync.Mutex
	seen := map[string]int{}
	var asking sync.WaitGroup
	for range 30 {
		asking.Go(func() {
			resp, err := http.Post(s.URL+"/chat/completions", "", strings.NewReader(`{"messages":[{"content":[{"type":"text","text":"hi"}]}]}`))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			_, answer, _ := strings.Cut(string(body), `"content":"`)
			mu.Lock()
			defer mu.Unlock()
			seen[answer[:len("answer 00")]]++
		})
	}
	asking.Wait()
	if len(seen) != 30 || len(s.Requests()) != 30 || s.Unused() != 0 {
		t.Errorf("%d answers, %d requests, %d turns unused", len(seen), len(s.Requests()), s.Unused())
	}
}

// TestCloseEndsAll checks that Close ends requests that wait at gates or stall, does
// not count as the client's hang-up, and may be called again.
func TestCloseEndsAll(t *testing.T) {
	s := New(Turn{Text: "x", End: Stall}, Turn{Text: "x", Pause: "never"})
	first, second := ask(t, t.Context(), s, true, "a"), ask(t, t.Context(), s, true, "b")
	s.Close()
	s.Close()
	for _, resp := range []*http.Response{first, second} {
		if got, err := read(resp); err == nil {
			t.Errorf("a whole answer: %s", got)
		}
	}
	for i, req := range s.Requests() {
		if req.IsGone() {
			t.Errorf("request %d counts as hung up", i)
		}
	}
	if _, err := http.Get(s.URL + "/models"); err == nil {
		t.Error("the server still answers")
	}
}

func TestWaitGivesUp(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Wait(ctx, 1); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}
