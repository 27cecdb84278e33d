package wire

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readBare reads an answer without HTTP around it, whose goroutines make fuzzing
// slow.
func readBare(t *testing.T, read func(*exchange) error, stream io.Reader) ([]string, error) {
	t.Helper()
	var g gathered
	ep, _ := endpointFor(t)
	x := ep.begin(t.Context(), ask(t, nil), nil, true, &g)
	defer x.detach()
	defer x.close()
	x.resp = &http.Response{Body: io.NopCloser(stream)}
	err := read(x)
	return g.words, err
}

// sameHowever holds that how a stream is cut into reads changes neither the
// events nor the error, and that only a complete answer ends with a finish.
func sameHowever(t *testing.T, read func(*exchange) error, stream string, at uint) []string {
	t.Helper()
	n := int(at % uint(len(stream)+1))
	want, wantErr := readBare(t, read, strings.NewReader(stream))
	for how, body := range map[string]io.Reader{
		"byte by byte": byteByByte(stream), "in two": io.MultiReader(strings.NewReader(stream[:n]), strings.NewReader(stream[n:])),
		"at the end": iotest.DataErrReader(strings.NewReader(stream)),
	} {
		got, err := readBare(t, read, body)
		if !slices.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%s: got\n%q, %v\nand whole\n%q, %v", how, got, err, want, wantErr)
		}
	}
	finished := len(want) > 0 && strings.HasPrefix(want[len(want)-1], "finish ")
	if finished != (wantErr == nil) {
		t.Fatalf("got %q and the error %v", want, wantErr)
	}
	return want
}

func readGemini(x *exchange) (err error) {
	answer := geminiAnswer{x: x}
	if answer.events, err = x.open(); err != nil {
		return err
	}
	return answer.read()
}

// FuzzGeminiStream holds that no stream makes the reader fail in another way
// than by an error, that cuts change nothing, and that what is kept goes back.
func FuzzGeminiStream(f *testing.F) {
	f.Add(geminiEvents(geTools...), uint(100))
	f.Add(geminiEvents(geParts(`{"text":"","thoughtSignature":"c2ln"},{"functionCall":{"name":"f"}}`), geStop), uint(7))
	f.Add("data: ["+geTools[0]+","+geStop+"]\n\ndata: {\"error\":{}}\n\n", uint(33))
	f.Add("data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n", uint(3))
	f.Add("\xef\xbb\xbf<html>", uint(1))
	f.Fuzz(func(t *testing.T, stream string, at uint) {
		handedBack(t, sameHowever(t, readGemini, stream, at), geminiBody)
	})
}
