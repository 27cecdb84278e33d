package wire

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"zino/pkg/wire"
)

// readAnthropic reads an answer without HTTP around it, whose goroutines make
// fuzzing slow.
func readAnthropic(t *testing.T, stream io.Reader) ([]string, error) {
	t.Helper()
	var g gathered
	ep, _ := endpointFor(t)
	x := ep.begin(t.Context(), ask(t, nil), nil, true, &g)
	defer x.detach()
	defer x.close()
	x.resp = &http.Response{Body: io.NopCloser(stream)}
	events, err := x.open()
	if err != nil {
		return nil, err
	}
	answer := anthropicAnswer{x: x, events: events}
	err = answer.read()
	return g.words, err
}

// FuzzAnthropic holds that no stream makes the reader fail, that how its bytes
// are cut into reads makes no difference, that only a finished answer ends with
// a finish, and that what is to be handed back is JSON of one line.
func FuzzAnthropic(f *testing.F) {
	for n, events := range [][]string{{anStart, anText, anHello, anStop0, anEnd, anMark}, anTools, {anText, anHello, anPing, anEnd}} {
		f.Add(anthropicEvents(events...), n*100)
	}
	f.Fuzz(func(t *testing.T, stream string, cut int) {
		cut = max(0, min(cut, len(stream)))
		want, wantErr := readAnthropic(t, strings.NewReader(stream))
		for how, body := range map[string]io.Reader{
			"byte by byte": iotest.OneByteReader(strings.NewReader(stream)),
			"in two parts": io.MultiReader(strings.NewReader(stream[:cut]), strings.NewReader(stream[cut:])),
			"at the end":   iotest.DataErrReader(strings.NewReader(stream)),
		} {
			got, err := readAnthropic(t, body)
			if !slices.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("%s: got\n%q, %v\nand whole\n%q, %v", how, got, err, want, wantErr)
			}
		}
		finished := len(want) > 0 && strings.HasPrefix(want[len(want)-1], "finish ")
		if finished != (wantErr == nil) {
			t.Fatalf("got %q and the error %v", want, wantErr)
		}
		for _, word := range want {
			if state, ok := strings.CutPrefix(word, "state "); ok && (!wire.Valid([]byte(state)) || strings.Contains(state, "\n")) {
				t.Fatalf("the state is not one line of JSON: %q", state)
			}
		}
	})
}
