package zino_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// TestChatImages pastes the path of a screenshot into the chat, as a terminal does for a
// file that is dropped, and names another one with @: the model gets the bytes of both, and
// in the next turn again.
func TestChatImages(t *testing.T) {
	encoded := func(width int) string {
		var b bytes.Buffer
		zinotest.Must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 20))))
		return b.String()
	}
	shot, plot := encoded(30), encoded(40)
	s, provider := newCommandChat(t, func(home string) {
		zinotest.Write(t, filepath.Join(home, "Pictures", "screen shot.png"), shot)
		zinotest.Write(t, filepath.Join(home, "proj", "plot.jpg"), plot) // the content counts
		zinotest.Write(t, filepath.Join(home, "proj", "broken.png"), shot[:60])
	}, nil, fakellm.Turn{Match: "wrong here", Text: "The button is cut off."}, fakellm.Turn{Match: "axis", Text: "It has no labels."},
		fakellm.Turn{Match: "plot.jpg", Text: "No legend."}, fakellm.Turn{Match: "screen shot.png", Text: "A button."}, fakellm.Turn{Match: "and now", Text: "Too many."})
	sent := func(n int, want ...string) {
		t.Helper()
		requests := provider.Requests()
		zinotest.Equal(t, "requests", len(requests), n)
		zinotest.Must(t, requests[n-1].Legal())
		for _, file := range want {
			zinotest.Contains(t, "the request", string(requests[n-1].Body), `"media_type":"image/png","data":"`+base64.StdEncoding.EncodeToString([]byte(file))+`"`)
		}
	}
	path := filepath.Join(s.Dir, "home", "Pictures", "screen shot.png")
	s.Tmux("send-keys", "-l", "what is wrong here? ")
	s.Tmux("set-buffer", "'"+path+"'")
	s.Tmux("paste-buffer", "-p")
	s.Shows(`@"`, "")
	s.Tmux("send-keys", "Enter")
	answered(s, "The button is cut off.")
	s.Shows("attached screen shot.png, 30x20", "")
	sent(1, shot)

	s.Enter("which axis is missing in @plot.jpg and @broken.png?")
	answered(s, "It has no labels.")
	s.Shows("attached plot.jpg, 40x20", "")
	s.Shows("broken.png cannot be decoded", "")
	sent(2, shot, plot)

	// Keys and pastes that come at once are as those one after the other.
	url := (&url.URL{Scheme: "file", Path: path}).String()
	zinotest.Contains(t, "URL", url, "screen%20shot.png")
	s.Tmux("set-buffer", "-b", "url", url)
	s.Tmux("set-buffer", "-b", "plot", filepath.Join(s.Dir, "home", "proj", "plot.jpg"))
	s.Tmux("paste-buffer", "-p", "-b", "url", ";", "send-keys", "C-u", ";", "paste-buffer", "-p", "-b", "plot", ";", "send-keys", "Enter")
	answered(s, "No legend.")
	sent(3, plot)
	zinotest.Contains(t, "the request", string(provider.Requests()[2].Body), `/plot.jpg"}`)
	s.Tmux("paste-buffer", "-p", "-b", "url", ";", "send-keys", "Enter")
	answered(s, "A button.")
	zinotest.Equal(t, "images of a URL", strings.Count(string(provider.Requests()[3].Body), base64.StdEncoding.EncodeToString([]byte(shot))), 2)
	leaveChat(s)

	// The provider takes 100 images in a request.
	s.Enter("images=$(for i in $(seq 20); do echo --image plot.jpg; done); for i in 1 2 3 4 5; do zino exec --session many $images again >/dev/null || break; done; clear; zino sessions resume many")
	s.Shows("/help", `\$0\.`)
	s.Enter("and now @plot.jpg?")
	answered(s, "Too many.")
	s.Shows("image left out, the oldest first", "")
	requests := provider.Requests()
	body := string(requests[len(requests)-1].Body)
	zinotest.Must(t, requests[len(requests)-1].Legal())
	zinotest.Equal(t, "images", strings.Count(body, `"type":"image"`), 100)
	zinotest.Contains(t, "the request", body, `[image plot.jpg left out]`)
	leaveChat(s)
}
