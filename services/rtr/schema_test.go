package rtr

import (
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/proto"
)

const strictSchema = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`

// nativeSchema is how a schema begins in a request on a wire.
var nativeSchema = map[string]string{
	"anthropic": `"output_config":{"format":{"type":"json_schema"`, "openai": `"response_format":{"type":"json_schema"`, "openrouter": `"response_format":{"type":"json_schema"`,
	"responses": `"text":{"format":{"type":"json_schema"`, "gemini": `"responseJsonSchema":{"type":"object"`, "ollama": `"format":{"type":"object"`,
}

// TestSchemaForms checks on every wire when a schema is sent in the provider's own form.
func TestSchemaForms(t *testing.T) {
	alone := []string{"gemini", "ollama"}
	for _, wire := range wireNames {
		for _, tt := range []struct {
			name, schema, config string
			tools                proto.Raw
			native               bool
		}{
			{"strict", strictSchema, "", nil, true},
			{"with tools", strictSchema, "", oneTool, wire != alone[0] && wire != alone[1]},
			{"by configuration", strictSchema, "native", oneTool, true},
			{"by prompt", strictSchema, "prompt", nil, false},
			{"not strict", strings.Replace(strictSchema, `"integer"`, `"integer","minimum":1`, 1), "", nil, false},
		} {
			t.Run(wire+"/"+tt.name, func(t *testing.T) {
				if wire == "ollama" && tt.config == "native" {
					return // a server of the user's own: it can have changed
				}
				llm := fakellm.New(fakellm.Reply("x"))
				defer llm.Close()
				r := onWire(t, wire, llm.Host, func(c *config.Config) {
					c.Rtr.Model = append(c.Rtr.Model, config.Model{Name: "*", Schema: tt.config, Tools: "native"})
				})
				in := ask("hi", true)
				in.System, in.Tools, in.OutputSchema = "Be brief.", tt.tools, proto.Raw(`{"$schema":"x",`+tt.schema[1:])
				_, err := r.infer(t.Context(), in, &chunks{})
				zinotest.Must(t, err)
				requests := llm.Requests()
				last := requests[len(requests)-1]
				body := string(last.Body)
				prompted := strings.Contains(body, `Be brief.\n\nWhen the work is done, the last answer must be one JSON value`)
				if err := last.Legal(); err != nil || strings.Contains(body, nativeSchema[wire]) != tt.native || prompted == tt.native {
					t.Errorf("asked with %s, %v", body, err)
				}
			})
		}
	}
}

// TestSchemaRefused checks that a model which refuses a schema is asked by prompt, at once
// and from then on.
func TestSchemaRefused(t *testing.T) {
	llm := fakellm.New(fakellm.Failure(400, `{"error":{"message":"output_config.format: not supported by this model"}}`), fakellm.Reply("1"), fakellm.Reply("2"))
	defer llm.Close()
	r := onWire(t, "anthropic", llm.Host, nil)
	in := ask("hi", true)
	in.Events, in.OutputSchema = true, proto.Raw(strictSchema)
	var got chunks
	for _, want := range []string{"1", "2"} {
		if text, err := r.infer(t.Context(), in, &got); err != nil || text != want {
			t.Errorf("got %q, %v", text, err)
		}
	}
	var native []bool
	for _, req := range llm.Requests() {
		if req.Method == "POST" {
			native = append(native, strings.Contains(string(req.Body), nativeSchema["anthropic"]))
		}
	}
	if len(native) != 3 || !native[0] || native[1] || native[2] {
		t.Errorf("asked in the provider's form: %v", native)
	}
	if len(got.events) != 1 || !strings.Contains(got.events[0], "does not take the JSON Schema in its own form") {
		t.Errorf("notices %q", got.events)
	}
}
