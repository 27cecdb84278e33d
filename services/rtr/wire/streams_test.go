package wire

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rogpeppe/go-internal/txtar"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
)

// streamCase is an answer as a provider sends it, and what the caller gets.
type streamCase struct {
	name      string
	wire      string
	effort    string
	collected bool // the caller wants the answer whole
	whole     bool // nor may the provider stream
	status    int
	header    http.Header
	bytes     string
	want      string

	ep  *Endpoint // made once for a case
	req *Request
}

// readStreams reads an archive: for each case a section with its bytes, one with
// the request where it is not the usual one, and one with the events.
func readStreams(t testing.TB, file string) (cases []*streamCase) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	zinotest.Must(t, err)
	usual, _, _ := strings.Cut(strings.TrimPrefix(string(archive.Comment), "wire: "), "\n")
	byName := map[string]*streamCase{}
	for _, section := range archive.Files {
		name, kind, _ := strings.Cut(section.Name, ": ")
		c := byName[name]
		if c == nil {
			c = &streamCase{name: name, wire: usual, status: 200, header: http.Header{}}
			byName[name], cases = c, append(cases, c)
		}
		switch kind {
		case "":
			c.bytes = unescape(string(section.Data))
		case "events":
			c.want = string(section.Data)
		case "request":
			for line := range strings.Lines(string(section.Data)) {
				key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
				switch key {
				case "wire":
					c.wire = value
				case "effort":
					c.effort = value
				case "collected":
					c.collected = true
				case "whole":
					c.whole = true
				case "status":
					if c.status, err = strconv.Atoi(value); err != nil {
						t.Fatalf("%s: %v", section.Name, err)
					}
				case "header":
					name, value, _ := strings.Cut(value, ": ")
					c.header.Add(name, value)
				default:
					t.Fatalf("%s: unknown line %q", section.Name, line)
				}
			}
		default:
			t.Fatalf("unknown section %q", section.Name)
		}
	}
	return cases
}

// In an archive ⟦hex⟧ stands for the bytes that a text file does not show, and
// ⟦⟧ before a line end for a stream without that line end.
var escaped = regexp.MustCompile(`⟦([0-9a-f]*)⟧`)

func unescape(s string) string {
	return escaped.ReplaceAllStringFunc(strings.ReplaceAll(s, "⟦⟧\n", ""), func(code string) string {
		b, err := hex.DecodeString(strings.Trim(code, "⟦⟧"))
		if err != nil {
			panic(err)
		}
		return string(b)
	})
}

var unseen = regexp.MustCompile(`[\x00-\x1f\x7f\x{feff}]|[\xff]| $`)

func shown(s string) string {
	return unseen.ReplaceAllStringFunc(s, func(c string) string { return "⟦" + hex.EncodeToString([]byte(c)) + "⟧" })
}

// infers are the wires by name.
var infers = map[string]Func{"openai": OpenAI, "openrouter": OpenRouter, "responses": Responses, "anthropic": Anthropic, "gemini": Gemini, "ollama": Ollama}

// answers is a transport that gives every request the same answer.
type answers struct {
	status int
	header http.Header
	body   io.Reader
}

// RoundTrip answers.
func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(a.body), Request: req}, nil
}

// result asks for the answer and returns its events and its error as text.
func (c *streamCase) result(t *testing.T, body io.Reader) string {
	t.Helper()
	if c.ep == nil {
		c.ep, _ = endpointFor(t)
		c.ep.Provider = "acme"
		c.req = ask(t, func(r *Request) { r.Stream, r.Whole, r.Effort = !c.collected, c.whole, c.effort })
	}
	c.ep.Client = &http.Client{Transport: answers{c.status, c.header, body}}
	var g gathered
	err := infers[c.wire](context.Background(), c.ep, c.req, &g)
	var out strings.Builder
	for _, word := range g.words {
		out.WriteString(shown(word) + "\n")
	}
	if err == nil {
		return out.String()
	}
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		t.Fatalf("got %#v, want a Fault", err)
	}
	fmt.Fprintf(&out, "error %v %s %s", f.Class, f.Code, f.Kind)
	if f.Status != 0 {
		fmt.Fprintf(&out, " status=%d", f.Status)
	}
	if f.Wait > 0 {
		fmt.Fprintf(&out, " wait=%v", f.Wait)
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"too_long", f.TooLong}, {"effort", slices.Contains(f.Refuses, "effort")}, {"summary", slices.Contains(f.Refuses, "summary")}, {"no_responses", slices.Contains(f.Refuses, "responses")}, {"unsent", f.Unsent}} {
		if flag.set {
			out.WriteString(" " + flag.name)
		}
	}
	fmt.Fprintf(&out, "\nmessage: %s\n", shown(f.Message))
	if f.Details != "" {
		fmt.Fprintf(&out, "details: %s\n", shown(f.Details))
	}
	if f.Message == "" || f.Kind == "" || strings.ContainsAny(f.Message+f.Details, "\n\r\x1b\x07") || (f.Header != nil) != (f.Kind == kindHTTP) {
		t.Errorf("got %+v with the header %v", *f.reported, f.Header)
	}
	noSecret(t, "the error", f.Message+f.Details)
	return out.String()
}

// TestStreams checks the events of the answers in testdata/streams: whole, byte by
// byte, cut into two reads at every byte, and in all forms that mean the same.
func TestStreams(t *testing.T) {
	files, err := filepath.Glob("testdata/streams/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d archives, %v", len(files), err)
	}
	for _, file := range files {
		cases := readStreams(t, file)
		if *update {
			updateStreams(t, file, cases)
			continue
		}
		for _, c := range cases {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+c.name, c.check)
		}
	}
}

func (c *streamCase) check(t *testing.T) {
	t.Parallel()
	check := func(how string, body io.Reader) {
		t.Helper()
		if got := c.result(t, body); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", how, got, c.want)
		}
	}
	check("whole", strings.NewReader(c.bytes))
	check("byte by byte", iotest.OneByteReader(strings.NewReader(c.bytes)))
	check("with the end in the last read", iotest.DataErrReader(strings.NewReader(c.bytes)))
	for i := 0; i < len(c.bytes) && c.status == 200 && !t.Failed(); i++ { // the first difference is enough
		check(fmt.Sprintf("cut at %d", i), io.MultiReader(strings.NewReader(c.bytes[:i]), strings.NewReader(c.bytes[i:])))
		// A beginning is not an answer until the finish or the end mark is there.
		if part := c.result(t, strings.NewReader(c.bytes[:i])); !strings.Contains(part, "error ") && textIn(part) != textIn(c.want) && !strings.Contains(c.bytes[:i], "inish") {
			t.Errorf("cut off at %d: got\n%s", i, part)
		}
	}
	if c.status != 200 || c.wire == "ollama" && strings.Contains(c.bytes, "data:") {
		return
	}
	forms := []string{"CRLF", "a byte order mark"}
	if strings.Contains(c.bytes, "data:") && c.wire != "ollama" {
		forms = append(forms, "CR", "comments", "no blanks")
	}
	for _, form := range forms {
		stream := c.bytes
		switch form {
		case "CRLF":
			stream = strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n").Replace(stream)
		case "CR":
			stream = strings.NewReplacer("\r\n", "\r", "\n", "\r").Replace(stream)
		case "a byte order mark":
			stream = "\ufeff" + strings.TrimPrefix(stream, "\ufeff")
		case "comments":
			stream = ": ping\n\n" + strings.ReplaceAll(strings.TrimPrefix(stream, "\ufeff"), "\n\n", "\n\n: ping\nid: 7\n\n\n")
		case "no blanks":
			stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\ndata: ", "\ndata:"), "\nevent: ", "\nevent:")
		}
		check(form, strings.NewReader(stream))
	}
}

// textIn is the text among events.
func textIn(events string) (text string) {
	for line := range strings.Lines(events) {
		if piece, ok := strings.CutPrefix(line, "text 0 "); ok {
			text += strings.TrimSuffix(piece, "\n")
		}
	}
	return text
}

// updateStreams writes an archive with the events that come now.
func updateStreams(t *testing.T, file string, cases []*streamCase) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	zinotest.Must(t, err)
	for i, section := range archive.Files {
		if name, kind, _ := strings.Cut(section.Name, ": "); kind == "events" {
			c := cases[slices.IndexFunc(cases, func(c *streamCase) bool { return c.name == name })]
			archive.Files[i].Data = []byte(c.result(t, strings.NewReader(c.bytes)))
		}
	}
	zinotest.Must(t, os.WriteFile(file, txtar.Format(archive), 0o644))
}

// noSecret fails if a form of testKey stands in text.
func noSecret(t *testing.T, where, text string) {
	t.Helper()
	for _, form := range []string{testKey, quotedKey, url.QueryEscape(testKey), url.PathEscape(testKey)} {
		if strings.Contains(text, form) {
			t.Errorf("%s holds the key: %s", where, text)
		}
	}
}

// full is a sink that fails after a number of events.
type full struct{ left int }

var errFull = errors.New("the sink is full")

// Event counts an event.
func (f *full) Event(Event) error {
	if f.left--; f.left < 0 {
		return errFull
	}
	return nil
}

// Flush does nothing.
func (f *full) Flush() error { return nil }

// TestSinkFails checks that an error of the sink ends the reading of every answer in
// testdata/streams, wherever it comes, and is returned as it is.
func TestSinkFails(t *testing.T) {
	files, err := filepath.Glob("testdata/streams/*.txtar")
	zinotest.Must(t, err)
	for _, file := range files {
		for _, c := range readStreams(t, file) {
			if strings.Contains(c.want, "error ") {
				continue
			}
			for n, failed := 0, true; failed; n++ {
				ep, _ := endpointFor(t, strings.NewReader(c.bytes))
				err := infers[c.wire](t.Context(), ep, ask(t, func(r *Request) { r.Stream, r.Whole = !c.collected, c.whole }), &full{left: n})
				if failed = err != nil; failed && err != errFull {
					t.Fatalf("%s: a sink that takes %d events: %v", c.name, n, err)
				}
			}
		}
	}
}

// readBare reads an answer without HTTP around it, whose goroutines make fuzzing
// slow.
func readBare(t *testing.T, c call, stream io.Reader) ([]string, error) {
	t.Helper()
	var g gathered
	ep, _ := endpointFor(t)
	x := ep.begin(t.Context(), ask(t, nil), &g, c)
	defer x.detach()
	defer x.release()
	x.resp = &http.Response{Body: io.NopCloser(stream)}
	err := x.read()
	return g.words, err
}

// checkReads checks that the sizes of reads change neither the events nor the error,
// that only a complete answer ends with a finish, and that what goes
// back is JSON on one line from which the next request can be made.
func checkReads(t *testing.T, c func() call, stream string, at int, body func(*Request) ([]byte, error)) {
	t.Helper()
	at = max(0, at) % (len(stream) + 1)
	want, wantErr := readBare(t, c(), strings.NewReader(stream))
	for how, r := range map[string]io.Reader{
		"byte by byte": iotest.OneByteReader(strings.NewReader(stream)), "in two": io.MultiReader(strings.NewReader(stream[:at]), strings.NewReader(stream[at:])),
		"with the end": iotest.DataErrReader(strings.NewReader(stream)),
	} {
		got, err := readBare(t, c(), r)
		if !slices.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%s: got\n%q, %v\nand whole\n%q, %v", how, got, err, want, wantErr)
		}
	}
	if finished := len(want) > 0 && strings.HasPrefix(want[len(want)-1], "finish "); finished != (wantErr == nil) {
		t.Fatalf("got %q and the error %v", want, wantErr)
	}
	if f, ok := errors.AsType[*Fault](wantErr); wantErr != nil && (!ok || f.Message == "" || f.Kind == "" || strings.ContainsAny(f.Message+f.Details, "\n\r\x1b\x00")) {
		t.Fatalf("got %#v", wantErr)
	} else if ok {
		noSecret(t, "the error", f.Message+f.Details)
	}
	state, calls := "", []Call(nil)
	for _, word := range want {
		kind, rest, _ := strings.Cut(word, " ")
		switch kind {
		case "state":
			state = rest
		case "tool":
			_, rest, _ = strings.Cut(rest, " ")
			id, name, _ := strings.Cut(rest, " ")
			calls = append(calls, Call{ID: id, Name: name})
		case "args":
			if index, args, _ := strings.Cut(rest, " "); index == strconv.Itoa(len(calls)-1) {
				calls[len(calls)-1].Args = args
			}
		}
	}
	if state == "" {
		return
	}
	if !wire.Valid([]byte(state)) || strings.ContainsAny(state, "\r\n") {
		t.Fatalf("the state %q is not one line of JSON", state)
	}
	list := []Message{{Role: "user", Text: "u"}, {Role: "assistant", Calls: calls, State: json.RawMessage(state)}}
	if next, err := body(&Request{Model: "m", Messages: list}); err != nil || !wire.Valid(next) {
		t.Fatalf("%s\nbecame %s: %v", state, next, err)
	}
}

// addStreams adds the answers of wires in testdata/streams as seeds.
func addStreams(f *testing.F, wires string, add func(stream string, at int)) {
	f.Helper()
	files, err := filepath.Glob("testdata/streams/*.txtar")
	zinotest.Must(f, err)
	for _, file := range files {
		for i, c := range readStreams(f, file) {
			if c.status == 200 && strings.Contains(wires, c.wire) {
				add(c.bytes, i*7)
			}
		}
	}
}

// FuzzAnswer, FuzzAnthropic, FuzzGeminiStream, FuzzOllamaStream and FuzzResponses
// check that no answer of a provider makes rtr panic, accept a partial answer as
// complete, or print the key.
func FuzzAnswer(f *testing.F) {
	addStreams(f, "openai openrouter", func(stream string, _ int) { f.Add([]byte(stream)) })
	f.Fuzz(func(t *testing.T, stream []byte) {
		for _, streamed := range []bool{true, false} {
			checkReads(t, func() call { return call{stream: streamed, answer: &completion{name: "openai"}} }, string(stream), len(stream)/2,
				func(r *Request) ([]byte, error) { return completionBody(r, "openai") })
		}
	})
}

func FuzzAnthropic(f *testing.F) {
	addStreams(f, "anthropic", func(stream string, at int) { f.Add(stream, at) })
	f.Fuzz(func(t *testing.T, stream string, at int) {
		streamed := !strings.HasPrefix(stream, "{")
		checkReads(t, func() call { return call{stream: streamed, ownEnd: true, answer: &anthropicAnswer{}} }, stream, at, anthropicBody)
	})
}

func FuzzResponses(f *testing.F) {
	addStreams(f, "responses", func(stream string, at int) { f.Add(stream, at) })
	f.Fuzz(func(t *testing.T, stream string, at int) {
		streamed := !strings.HasPrefix(stream, "{")
		checkReads(t, func() call { return call{stream: streamed, ownEnd: true, answer: &responsesAnswer{}} }, stream, at, responsesBody)
	})
}

func FuzzGeminiStream(f *testing.F) {
	addStreams(f, "gemini", func(stream string, at int) { f.Add(stream, uint(at)) })
	f.Fuzz(func(t *testing.T, stream string, at uint) {
		checkReads(t, func() call { return call{stream: true, alwaysStreams: true, answer: &geminiAnswer{}} }, stream, int(at%(1<<30)), geminiBody)
	})
}

func FuzzOllamaStream(f *testing.F) {
	addStreams(f, "ollama", func(stream string, at int) { f.Add(stream, uint(at)) })
	f.Fuzz(func(t *testing.T, stream string, at uint) {
		checkReads(t, func() call {
			return call{stream: true, alwaysStreams: true, lines: true, ownEnd: true, answer: &ollamaAnswer{}}
		}, stream, int(at%(1<<30)), ollamaBody)
	})
}
