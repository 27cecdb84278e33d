package server

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// TestDrain checks that the input ends only when each request that was read is answered.
func TestDrain(t *testing.T) {
	for _, test := range []struct {
		name, in string
		answers  []string // in order; only the last one may end the input
	}{
		{"nothing", "", nil},
		{"notifications", `{"method":"notifications/initialized"}` + "\nnot JSON\n[1]\n", nil},
		{"answers of the client", `{"id":1,"result":{}}` + "\n", nil},
		{"one", `{"id":1,"method":"tools/call"}` + "\n", []string{`{"id":1,"result":{}}` + "\n"}},
		{"no newline", `{"id":1,"method":"a"}`, []string{`{"id":1,"error":{}}` + "\n"}},
		{"two, the answers split", `{"id":"a","method":"x"}` + "\n" + `{"id":2,"method":"y"}` + "\n", []string{`{"id":2,"result":1}` + "\n" + `{"id"`, `:"a","result":1}` + "\n"}},
		{"other messages between", `{"id":1,"method":"a"}` + "\n", []string{`{"method":"notifications/progress","params":{}}` + "\n" + `{"id":1,"method":"ping"}` + "\n", `{"id":1,"result":{}}` + "\n"}},
		{"batch", `[{"id":1,"method":"a"},{"id":2,"method":"b"}]` + "\n", []string{`[{"id":1,"result":1}`, `,{"id":2,"result":1}]` + "\n"}},
		{"canceled", `{"id":1,"method":"a"}` + "\n" + `{"method":"notifications/cancelled","params":{"requestId":1}}` + "\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDrain(io.NopCloser(strings.NewReader(test.in)), nopCloser{io.Discard})
			ended := make(chan string, 1)
			go func() {
				b, err := io.ReadAll(d)
				zinotest.Must(t, err)
				ended <- string(b)
			}()
			zinotest.Eventually(t, "the input is read", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.ended })
			for _, answer := range test.answers {
				select {
				case <-ended:
					t.Fatalf("ended before %q", answer)
				default:
				}
				_, err := d.writer().Write([]byte(answer))
				zinotest.Must(t, err)
			}
			zinotest.Equal(t, "what was read", zinotest.Receive(t, "the end", ended), test.in)
		})
	}
}

// TestDrainClose checks that closing ends a reader that waits for answers.
func TestDrainClose(t *testing.T) {
	d := newDrain(io.NopCloser(strings.NewReader(`{"id":1,"method":"a"}`)), nopCloser{io.Discard})
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, d)
		ended <- err
	}()
	zinotest.Eventually(t, "the input is read", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.ended })
	zinotest.Must(t, d.Close())
	zinotest.Must(t, zinotest.Receive(t, "the end", ended))
}

// FuzzDrain checks that any bytes of a client are passed on unchanged.
func FuzzDrain(f *testing.F) {
	for _, seed := range []string{"", "\n", "[", `{"id":null,"method":"x"}`, `{"id":1,"method":"x"}` + "\n\n", `[{"id":{}},{"method":3}]`, `{"method":"notifications/cancelled","params":{"requestId":[1]}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		d := newDrain(io.NopCloser(bufio.NewReader(strings.NewReader(string(in)))), nopCloser{io.Discard})
		zinotest.Must(t, d.Close()) // nothing answers
		got, err := io.ReadAll(d)
		zinotest.Must(t, err)
		if string(got) != string(in) {
			t.Errorf("read %q, want %q", got, in)
		}
	})
}

// TestSchemas checks the arguments of the tools against the contract.
func TestSchemas(t *testing.T) {
	list, err := tools()
	zinotest.Must(t, err)
	want := map[string]string{
		"memory_search": "query top_k tag", "memory_store": "text tag", "sessions_search": "query limit", "sessions_read": "session_id from",
		"pages_list": "", "pages_eval": "page code timeout_ms", "ask": "prompt session_id root model",
	}
	zinotest.Equal(t, "tools", len(list), len(want))
	for _, tool := range list {
		b, err := json.Marshal(tool.definition.InputSchema)
		zinotest.Must(t, err)
		var schema struct {
			Type                 string
			AdditionalProperties *bool
			Properties           map[string]struct{ Description string }
		}
		zinotest.Must(t, json.Unmarshal(b, &schema))
		names := strings.Fields(want[tool.definition.Name])
		if schema.Type != "object" || schema.AdditionalProperties == nil || *schema.AdditionalProperties || len(schema.Properties) != len(names) {
			t.Errorf("%s: %s", tool.definition.Name, b)
		}
		for _, name := range names {
			if schema.Properties[name].Description == "" {
				t.Errorf("%s: %s is not described: %s", tool.definition.Name, name, b)
			}
		}
	}
}
