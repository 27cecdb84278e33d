package fakellm

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// legalCase has the changing part of a body and a substring of the error, "" for a
// legal one.
type legalCase struct{ name, part, want string }

// checkLegal checks frame with PART replaced by each case's part.
func checkLegal(t *testing.T, path, frame string, cases []legalCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			body := strings.ReplaceAll(frame, "PART", tt.part)
			if !json.Valid([]byte(body)) {
				t.Fatalf("the test's body is not JSON: %s", body)
			}
			r := &Request{Path: path, Header: http.Header{"Anthropic-Version": {"2023-06-01"}}, Body: []byte(body)}
			err := r.Legal()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q in\n%s", err, tt.want, body)
			}
		})
	}
}

// A PNG and a PDF file in base64.
const (
	dot     = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABAQMAAADO7O3JAAAABlBMVEX///8AAABVwtN+AAAADklEQVR4nGJgAAQAAP//AAIAAUu7KZ8AAAAASUVORK5CYII="
	page    = "JVBERi0xLjQK"
	anImage = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + dot + `"}}`
)

// Messages of OpenAI's wire.
const (
	oUser   = `{"role":"user","content":"hi"}`
	oCallA  = `{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`
	oCallB  = `{"id":"b","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}`
	oAsks   = `{"role":"assistant","content":null,"tool_calls":[` + oCallA + `]}`
	oAsks2  = `{"role":"assistant","content":"so","tool_calls":[` + oCallA + `,` + oCallB + `]}`
	oToolA  = `{"role":"tool","tool_call_id":"a","content":"1"}`
	oToolB  = `{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"2"}]}`
	oSays   = `{"role":"assistant","content":"yes"}`
	oSystem = `{"role":"system","content":"be brief"}`
)

func TestLegalOpenAI(t *testing.T) {
	checkLegal(t, "/api/v1/chat/completions", `{"model":"m","messages":[PART]}`, []legalCase{
		{"one", oUser, ""},
		{"system first", oSystem + `,{"role":"developer","content":"x"},` + oUser, ""},
		{"system between", oUser + `,` + oSays + `,` + oSystem + `,` + oUser, ""},
		{"a turn", oUser + `,` + oAsks + `,` + oToolA + `,` + oSays + `,` + oUser, ""},
		{"two calls", oUser + `,` + oAsks2 + `,` + oToolA + `,` + oToolB, ""},
		{"two results in reverse order", oUser + `,` + oAsks2 + `,` + oToolB + `,` + oToolA, ""},
		{"the same id in a later turn", oUser + `,` + oAsks + `,` + oToolA + `,` + oAsks + `,` + oToolA, ""},
		{"users in a row", oUser + `,` + oUser, ""},
		{"assistant last", oUser + `,` + oSays, ""},
		{"parts", `{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + dot + `"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,` + page + `"}}]}`, ""},
		{"an image elsewhere", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}]}`, "neither a data URL"},
		{"an image that is none", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + page + `"}}]}`, "application/pdf is sent as"},
		{"an image of the assistant", oUser + `,{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + dot + `"}}]}`, "of the user"},
		{"tools", oUser + `],"tools":[{"type":"function","function":{"name":"f"}}],"x":[`, ""},
		{"tools null", oUser + `],"tools":null,"x":[`, ""},

		{"an effort", oUser + `],"reasoning_effort":"none","reasoning":{"effort":"max"},"x":[`, ""},
		{"unknown effort", oUser + `],"reasoning_effort":"off","x":[`, "unknown effort"},
		{"nothing", ``, "none is the user's"},
		{"only a system", oSystem, "none is the user's"},
		{"assistant first", oSystem + `,` + oSays + `,` + oUser, "messages[1]: the first one is not the user's"},
		{"result first", oToolA + `,` + oUser, "messages[0]: the first one"},
		{"call without result", oUser + `,` + oAsks, "the call a f has no result"},
		{"call without result, then the user", oUser + `,` + oAsks + `,` + oUser, "messages[2]: stands before the result of the call a"},
		{"system before the result", oUser + `,` + oAsks + `,` + oSystem + `,` + oToolA, "messages[2]: stands before"},
		{"user between results", oUser + `,` + oAsks2 + `,` + oToolA + `,` + oUser + `,` + oToolB, "messages[3]: stands before the result of the call b"},
		{"one of two results", oUser + `,` + oAsks2 + `,` + oToolB, "the call a f has no result"},
		{"result without a call", oUser + `,` + oToolA, "messages[1]: a result for a, which is not a call"},
		{"result without a call after text", oUser + `,` + oSays + `,` + oToolA, "messages[2]: a result for a"},
		{"wrong id", oUser + `,` + oAsks + `,` + oToolB, "a result for b"},
		{"result twice", oUser + `,` + oAsks + `,` + oToolA + `,` + oToolA, "messages[3]: a result for a"},
		{"late result", oUser + `,` + oAsks + `,` + oToolA + `,` + oSays + `,` + oToolA, "messages[4]: a result for a"},
		{"an id twice", oUser + `,{"role":"assistant","tool_calls":[` + oCallA + `,` + oCallA + `]},` + oToolA + `,` + oToolA, "two calls have the id a"},
		{"result without id", oUser + `,` + oAsks + `,{"role":"tool","content":"1"}`, "without tool_call_id"},
		{"result without content", oUser + `,` + oAsks + `,{"role":"tool","tool_call_id":"a"}`, "neither text nor parts"},
		{"call without id", oUser + `,` + strings.Replace(oAsks, `"id":"a",`, "", 1), "tool_calls[0]: needs an id"},
		{"call without type", oUser + `,` + strings.Replace(oAsks, `"type":"function",`, "", 1), "tool_calls[0]"},
		{"call without name", oUser + `,` + strings.Replace(oAsks, `"name":"f"`, `"name":""`, 1), "tool_calls[0]"},
		{"empty arguments", oUser + `,` + strings.Replace(oAsks, `"{}"`, `""`, 1), "tool_calls[0]"},
		{"broken arguments", oUser + `,` + strings.Replace(oAsks, `"{}"`, `"{\"a\":"`, 1), "tool_calls[0]"},
		{"a list as arguments", oUser + `,` + strings.Replace(oAsks, `"{}"`, `"[]"`, 1), "tool_calls[0]"},
		{"arguments not text", oUser + `,` + strings.Replace(oAsks, `"{}"`, `{}`, 1), "the body"},
		{"no calls", oUser + `,{"role":"assistant","content":"x","tool_calls":[]}`, "tool_calls: an empty list"},
		{"calls of the user", `{"role":"user","content":"x","tool_calls":[` + oCallA + `]}`, "tool_calls in a message of the role user"},
		{"result of the user", `{"role":"user","content":"x","tool_call_id":"a"}`, "tool_call_id in a message"},
		{"assistant without content", oUser + `,{"role":"assistant"}`, "neither text nor parts"},
		{"user null", `{"role":"user","content":null}`, "neither text nor parts"},
		{"user number", `{"role":"user","content":1}`, "neither text nor parts"},
		{"no parts", `{"role":"user","content":[]}`, "neither text nor parts"},
		{"part without text", `{"role":"user","content":[{"type":"text"}]}`, "content[0]: needs a text"},
		{"part without type", `{"role":"user","content":[{"text":"x"}]}`, "content[0]: unknown type"},
		{"unknown role", `{"role":"model","content":"x"}`, `unknown role "model"`},
		{"no role", `{"content":"x"}`, `unknown role ""`},
		{"no model", oUser + `],"model":"","x":[`, "model: missing"},
		{"empty tools", oUser + `],"tools":[],"x":[`, "tools: an empty list"},
		{"tool without type", oUser + `],"tools":[{"function":{"name":"f"}}],"x":[`, "tools[0]: the type"},
		{"tool without name", oUser + `],"tools":[{"type":"function"}],"x":[`, "tools[0]: no name"},
		{"tool twice", oUser + `],"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}],"x":[`, "tools[1]: a second one"},
	})
}

// Messages of Anthropic's wire.
const (
	aUser   = `{"role":"user","content":"hi"}`
	aCallA  = `{"type":"tool_use","id":"a","name":"f","input":{}}`
	aCallB  = `{"type":"tool_use","id":"b","name":"f","input":{"x":1}}`
	aThinks = `{"type":"thinking","thinking":"hm","signature":"s"}`
	aAsks   = `{"role":"assistant","content":[` + aThinks + `,{"type":"text","text":"so"},` + aCallA + `]}`
	aAsks2  = `{"role":"assistant","content":[` + aCallA + `,` + aCallB + `]}`
	aResA   = `{"type":"tool_result","tool_use_id":"a","content":"1"}`
	aResB   = `{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"2"}],"is_error":true}`
	aText   = `{"type":"text","text":"more"}`
	aSays   = `{"role":"assistant","content":"yes"}`
)

// aGives returns a user message with blocks.
func aGives(blocks ...string) string {
	return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
}

func TestLegalAnthropic(t *testing.T) {
	mark := `"cache_control":{"type":"ephemeral"}`
	marked := `{"type":"text","text":"x",` + mark + `}`
	checkLegal(t, "/v1/messages", `{"model":"m","max_tokens":9,"messages":[PART]}`, []legalCase{
		{"one", aUser, ""},
		{"a turn", aUser + `,` + aAsks + `,` + aGives(aResA) + `,` + aSays + `,` + aUser, ""},
		{"two calls and text", aUser + `,` + aAsks2 + `,` + aGives(aResB, aResA, aText), ""},
		{"empty result", aUser + `,` + aAsks + `,` + aGives(`{"type":"tool_result","tool_use_id":"a"}`), ""},
		{"blank result", aUser + `,` + aAsks + `,` + aGives(`{"type":"tool_result","tool_use_id":"a","content":""}`), ""},
		{"four breakpoints", aGives(marked, marked) + `],"tools":[{"name":"f","input_schema":{},` + mark + `}],"system":[` + marked + `],"x":[`, ""},
		{"thinking", aUser + `,` + aAsks + `,` + aGives(aResA) + `],"max_tokens":2048,"thinking":{"type":"enabled","budget_tokens":1024},"x":[`, ""},
		{"thinking, answered before", aUser + `,` + aAsks2 + `,` + aGives(aResA, aResB) + `,` + aSays + `,` + aUser + `],"max_tokens":2048,"thinking":{"type":"enabled","budget_tokens":1024},"x":[`, ""},
		{"an image", aGives(anImage, aText), ""},
		{"an image of another kind", aGives(strings.Replace(anImage, "png", "jpeg", 1)), "image/png is sent as"},
		{"a document", aGives(`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + page + `"}}`), ""},
		{"redacted", aUser + `,{"role":"assistant","content":[{"type":"redacted_thinking","data":"d"},` + aCallA + `]},` + aGives(aResA), ""},

		{"nothing", ``, "none is the user's"},
		{"assistant first", aSays + `,` + aUser, "messages[0]: the first one is not the user's"},
		{"assistant last", aUser + `,` + aSays, "messages[1]: the last one is not the user's"},
		{"users in a row", aUser + `,` + aUser, "messages[1]: two in a row of the role user"},
		{"assistants in a row", aUser + `,` + aSays + `,` + aSays + `,` + aUser, "messages[2]: two in a row"},
		{"system in the messages", `{"role":"system","content":"x"},` + aUser, `messages[0]: unknown role "system"`},
		{"tool as a role", aUser + `,` + aAsks + `,{"role":"tool","content":"x"}`, `unknown role "tool"`},
		{"empty content", `{"role":"user","content":""}`, "blank text"},
		{"blank content", `{"role":"user","content":" \n"}`, "blank text"},
		{"no blocks", `{"role":"user","content":[]}`, "content: empty"},
		{"no content", `{"role":"user"}`, "content: empty"},
		{"number", `{"role":"user","content":1}`, "neither text nor blocks"},
		{"empty text block", aUser + `,{"role":"assistant","content":[{"type":"text","text":""},` + aCallA + `]},` + aGives(aResA), "messages[1]: content[0]: blank text"},
		{"empty text in a result", aUser + `,` + aAsks + `,` + aGives(`{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":""}]}`), "content[0]: blank text"},
		{"call without result", aUser + `,` + aAsks + `,` + aGives(aText), "messages[2]: stands before the result of the call a"},
		{"call at the end", aUser + `,` + aAsks, "has no result"},
		{"results in two messages", aUser + `,` + aAsks2 + `,` + aGives(aResA) + `,` + aSays + `,` + aGives(aResB), "messages[2]: stands before the result of the call b"},
		{"result behind text", aUser + `,` + aAsks + `,` + aGives(aText, aResA), "messages[2]: content[1]: a result behind something else"},
		{"result between", aUser + `,` + aAsks2 + `,` + aGives(aResA, aText, aResB), "content[2]: a result behind"},
		{"result without a call", aGives(aResA), "messages[0]: a result for a"},
		{"late result without a call", aUser + `,` + aAsks + `,` + aGives(aResA) + `,` + aSays + `,` + aGives(aResA), "messages[4]: a result for a"},
		{"result twice", aUser + `,` + aAsks + `,` + aGives(aResA, aResA), "a result for a"},
		{"result without id", aUser + `,` + aAsks + `,` + aGives(`{"type":"tool_result","content":"x"}`), "without tool_use_id"},
		{"result of the assistant", aUser + `,{"role":"assistant","content":[` + aResA + `]},` + aUser, "tool_result in a message of the role assistant"},
		{"call of the user", aGives(aCallA), "tool_use in a message of the role user"},
		{"thinking of the user", aGives(aThinks, aText), "thinking in a message of the role user"},
		{"an image of the assistant", aUser + `,{"role":"assistant","content":[` + anImage + `]},` + aUser, "image in a message of the role assistant"},
		{"call without id", aUser + `,` + strings.Replace(aAsks, `"id":"a"`, `"id":""`, 1) + `,` + aGives(aResA), "tool_use needs"},
		{"call with a strange id", aUser + `,` + strings.Replace(aAsks, `"id":"a"`, `"id":"a:0"`, 1) + `,` + aGives(aResA), "tool_use needs"},
		{"call without input", aUser + `,` + strings.Replace(aAsks, `,"input":{}`, ``, 1) + `,` + aGives(aResA), "tool_use needs"},
		{"input as text", aUser + `,` + strings.Replace(aAsks, `"input":{}`, `"input":"{}"`, 1) + `,` + aGives(aResA), "tool_use needs"},
		{"an id twice", aUser + `,` + aAsks + `,` + aGives(aResA) + `,` + aAsks + `,` + aGives(aResA), "messages[3]: a second call with the id a"},
		{"thinking without signature", aUser + `,` + strings.Replace(aAsks, `"signature":"s"`, `"signature":""`, 1) + `,` + aGives(aResA), "thinking needs its signature"},
		{"thinking marked", aUser + `,` + strings.Replace(aAsks, `"signature":"s"`, `"signature":"s",`+mark, 1) + `,` + aGives(aResA), "no cache_control"},
		{"thinking lost", aUser + `,` + aAsks2 + `,` + aGives(aResA, aResB) + `],"max_tokens":2048,"thinking":{"type":"enabled","budget_tokens":1024},"x":[`, "does not begin with a thinking block"},
		{"adaptive", aUser + `],"top_p":0.95,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"max"},"x":[`, ""},
		{"disabled", aUser + `],"temperature":0.2,"thinking":{"type":"disabled"},"x":[`, ""},
		{"temperature beside thinking", aUser + `],"temperature":0.2,"thinking":{"type":"adaptive"},"x":[`, "beside thinking"},
		{"unknown thinking", aUser + `],"thinking":{"type":"deep"},"x":[`, "unknown type"},
		{"unknown effort", aUser + `],"thinking":{"type":"adaptive"},"output_config":{"effort":"heroic"},"x":[`, "unknown effort"},
		{"budget beside adaptive", aUser + `],"max_tokens":2048,"thinking":{"type":"adaptive","budget_tokens":1024},"x":[`, "budget_tokens with"},
		{"budget too small", aUser + `],"max_tokens":2048,"thinking":{"type":"enabled","budget_tokens":1000},"x":[`, "budget_tokens"},
		{"budget too large", aUser + `],"max_tokens":2048,"thinking":{"type":"enabled","budget_tokens":2048},"x":[`, "budget_tokens"},
		{"unknown block", aGives(`{"type":"functionCall"}`), `unknown type "functionCall"`},
		{"no max_tokens", aUser + `],"max_tokens":null,"max_tokens":0,"x":[`, "max_tokens: missing"},
		{"no model", aUser + `],"model":"","x":[`, "model: missing"},
		{"five breakpoints", aGives(marked, marked) + `],"tools":[{"name":"f","input_schema":{},` + mark + `}],"system":[` + marked + `],` + mark + `,"x":[`, "5 of them"},
		{"blank system block", aUser + `],"system":[{"type":"text","text":""}],"x":[`, "system: content[0]: blank"},
		{"tool without schema", aUser + `],"tools":[{"name":"f"}],"x":[`, "tools[0]: needs"},
		{"tool's strange name", aUser + `],"tools":[{"name":"f g","input_schema":{}}],"x":[`, "tools[0]: needs"},
		{"tool twice", aUser + `],"tools":[{"name":"f","input_schema":{}},{"name":"f","input_schema":{}}],"x":[`, "tools[1]: a second one"},
	})
	r := &Request{Path: "/v1/messages", Body: []byte(`{"model":"m","max_tokens":9,"messages":[` + aUser + `]}`)}
	if err := r.Legal(); err == nil || !strings.Contains(err.Error(), "anthropic-version") {
		t.Errorf("without a version: got %v", err)
	}
}

// Contents of Gemini's wire.
const (
	gUser  = `{"role":"user","parts":[{"text":"hi"}]}`
	gCallA = `{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"c2ln"}`
	gCallB = `{"functionCall":{"name":"g","args":{"x":1}}}`
	gAsks  = `{"role":"model","parts":[{"text":"hm","thought":true},` + gCallA + `]}`
	gAsks2 = `{"role":"model","parts":[` + gCallA + `,` + gCallB + `]}`
	gResA  = `{"functionResponse":{"id":"a","name":"f","response":{"result":"1"}}}`
	gResB  = `{"functionResponse":{"name":"g","response":{}}}`
	gText  = `{"text":"more"}`
	gSays  = `{"role":"model","parts":[{"text":"yes"}]}`
)

// gGives returns a user content with parts.
func gGives(parts ...string) string {
	return `{"role":"user","parts":[` + strings.Join(parts, ",") + `]}`
}

func TestLegalGemini(t *testing.T) {
	checkLegal(t, "/v1beta/models/m:streamGenerateContent", `{"contents":[PART]}`, []legalCase{
		{"one", gUser, ""},
		{"a turn", gUser + `,` + gAsks + `,` + gGives(gResA) + `,` + gSays + `,` + gUser, ""},
		{"two calls and text", gUser + `,` + gAsks2 + `,` + gGives(gResA, gResB, gText), ""},
		{"system and tools", gUser + `],"systemInstruction":{"parts":[{"text":"x"}]},"tools":[{"functionDeclarations":[{"name":"f"}]}],"x":[`, ""},
		{"signature on empty text", gUser + `,{"role":"model","parts":[{"text":"","thoughtSignature":"c2ln"}]},` + gUser, ""},
		{"data", gGives(`{"inlineData":{"mimeType":"image/png","data":"` + dot + `"}}`), ""},

		{"nothing", ``, "none is the user's"},
		{"model first", gSays + `,` + gUser, "the first one is not the user's"},
		{"model last", gUser + `,` + gSays, "the last one is not the user's"},
		{"users in a row", gUser + `,` + gUser, "two in a row of the role user"},
		{"assistant as a role", gUser + `,{"role":"assistant","parts":[` + gText + `]}`, `contents[1]: unknown role "assistant"`},
		{"no role", `{"parts":[` + gText + `]}`, `unknown role ""`},
		{"no parts", `{"role":"user","parts":[]}`, "parts: empty"},
		{"empty text", gGives(`{"text":""}`), "parts[0]: empty text"},
		{"empty part", gGives(`{}`), "not exactly one"},
		{"two in a part", gUser + `,{"role":"model","parts":[{"text":"x","functionCall":{"name":"f"}}]}`, "not exactly one"},
		{"call without response", gUser + `,` + gAsks + `,` + gUser, "messages[2]: stands before"},
		{"call at the end", gUser + `,` + gAsks, "has no result"},
		{"responses in two contents", gUser + `,` + gAsks2 + `,` + gGives(gResA) + `,` + gSays + `,` + gGives(gResB), "stands before the result of the call g"},
		{"response behind text", gUser + `,` + gAsks + `,` + gGives(gText, gResA), "contents[2]: parts[1]: a response behind"},
		{"result without a call", gGives(gResA), "a result for a f, which is not a call"},
		{"without the call's id", gUser + `,` + gAsks + `,` + gGives(strings.Replace(gResA, `"id":"a",`, "", 1)), "a result for f, which is not a call"},
		{"with an id of its own", gUser + `,` + gAsks2 + `,` + gGives(gResA, strings.Replace(gResB, `"name"`, `"id":"b","name"`, 1)), "a result for b g"},
		{"wrong name", gUser + `,` + gAsks + `,` + gGives(strings.Replace(gResA, `"f"`, `"g"`, 1)), "a result for a g"},
		{"response without name", gUser + `,` + gAsks + `,` + gGives(strings.Replace(gResA, `"f"`, `""`, 1)), "functionResponse needs"},
		{"response as text", gUser + `,` + gAsks + `,` + gGives(strings.Replace(gResA, `{"result":"1"}`, `"1"`, 1)), "functionResponse needs"},
		{"response of the model", gUser + `,{"role":"model","parts":[` + gResA + `]},` + gUser, "functionResponse needs the role user"},
		{"call of the user", gGives(gCallA), "functionCall needs the role model"},
		{"call without name", gUser + `,{"role":"model","parts":[{"functionCall":{"args":{}}}]},` + gUser, "functionCall needs"},
		{"args as text", gUser + `,{"role":"model","parts":[{"functionCall":{"name":"f","args":"{}"}}]},` + gUser, "functionCall needs"},
		{"signature not base64", gUser + `,` + strings.Replace(gAsks, "c2ln", "sig-1", 1) + `,` + gGives(gResA), "thoughtSignature is not base64"},
		{"thinks", gUser + `],"generationConfig":{"thinkingConfig":{"thinkingBudget":0}},"x":[`, ""},
		{"unknown level", gUser + `],"generationConfig":{"thinkingConfig":{"thinkingLevel":"high"}},"x":[`, "unknown thinkingLevel"},
		{"level and budget", gUser + `],"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW","thinkingBudget":0}},"x":[`, "both thinkingLevel"},
		{"empty system", gUser + `],"systemInstruction":{"parts":[{"text":""}]},"x":[`, "systemInstruction: parts[0]: empty text"},
		{"tool twice", gUser + `],"tools":[{"functionDeclarations":[{"name":"f"},{"name":"f"}]}],"x":[`, "tools[1]: a second one"},
	})
}

func TestLegalOllama(t *testing.T) {
	const (
		asks  = `{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}]}`
		asks2 = `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{"x":1}}}]}`
		toolF = `{"role":"tool","tool_name":"f","content":"1"}`
		toolG = `{"role":"tool","tool_name":"g","content":""}`
		toolA = `{"role":"tool","tool_call_id":"a","content":"1"}`
	)
	checkLegal(t, "/api/chat", `{"model":"m","messages":[PART]}`, []legalCase{
		{"one", oSystem + `,` + oUser, ""},
		{"by name", oUser + `,` + asks + `,` + toolF, ""},
		{"by id", oUser + `,` + asks + `,` + toolA, ""},
		{"no tools", oUser + `],"tools":[],"x":[`, ""},
		{"two", oUser + `,` + asks2 + `,` + toolA + `,` + toolG + `,` + oSays, ""},

		{"assistant first", oSays, "the first one is not the user's"},
		{"call without result", oUser + `,` + asks2 + `,` + toolF, "the call g has no result"},
		{"something between", oUser + `,` + asks + `,` + oUser + `,` + toolF, "messages[2]: stands before"},
		{"result without a call", oUser + `,` + toolF, "a result for f"},
		{"wrong id", oUser + `,` + asks + `,` + strings.Replace(toolA, `"a"`, `"b"`, 1), "a result for b"},
		{"wrong name", oUser + `,` + asks + `,` + toolG, "a result for g"},
		{"result without a name", oUser + `,` + asks + `,{"role":"tool","content":"1"}`, "neither tool_name nor tool_call_id"},
		{"arguments as text", oUser + `,` + strings.Replace(asks, `{}`, `"{}"`, 1) + `,` + toolF, "an object as arguments"},
		{"call without name", oUser + `,` + strings.Replace(asks, `"f"`, `""`, 1) + `,` + toolF, "tool_calls[0]: needs a name"},
		{"calls of the user", `{"role":"user","content":"x","tool_calls":[{"function":{"name":"f","arguments":{}}}]}`, "tool_calls in a message"},
		{"no content", `{"role":"user"}`, "content: missing"},
		{"thinks", oUser + `],"think":"low","x":[`, ""},
		{"thinks in numbers", oUser + `],"think":1,"x":[`, "think: neither"},
		{"content in parts", `{"role":"user","content":[{"type":"text","text":"x"}]}`, "the body"},
		{"unknown role", `{"role":"developer","content":"x"}`, "unknown role"},
		{"no model", oUser + `],"model":"","x":[`, "model: missing"},
		{"tool without name", oUser + `],"tools":[{"type":"function"}],"x":[`, "tools[0]: no name"},
	})
}

func TestLegalResponses(t *testing.T) {
	const (
		thinks = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}`
		calls  = `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}`
		calls2 = `{"type":"function_call","call_id":"b","name":"g","arguments":"{\"x\":1}"}`
		gives  = `{"type":"function_call_output","call_id":"a","output":"1"}`
		gives2 = `{"type":"function_call_output","call_id":"b","output":""}`
		says   = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}`
		tool   = `{"type":"function","name":"f","parameters":{},"strict":false}`
	)
	checkLegal(t, "/v1/responses", `{"model":"m","store":false,"input":[PART]}`, []legalCase{
		{"one", oSystem + `,` + oUser, ""},
		{"a text", oUser + `],"input":"hi","x":[`, ""},
		{"parts", `{"role":"user","content":[{"type":"input_text","text":"x"}]},` + says, ""},
		{"a loop", oUser + `,` + thinks + `,` + says + `,` + calls + `,` + calls2 + `,` + gives2 + `,` + gives + `,` + thinks + `,` + says, ""},
		{"a tool", oUser + `],"tools":[` + tool + `],"reasoning":{"effort":"max"},"max_output_tokens":16,"x":[`, ""},

		{"call without result", oUser + `,` + calls + `,` + calls2 + `,` + gives, "the call b g has no result"},
		{"result without a call", oUser + `,` + gives, "a result for a"},
		{"something between", oUser + `,` + calls + `,` + oUser + `,` + gives, "stands before"},
		{"reasoning alone", oUser + `,` + thinks + `,` + oUser, "input[2]: reasoning without the item"},
		{"reasoning last", oUser + `,` + thinks, "the last item is reasoning"},
		{"reasoning lost", oUser + `,` + strings.Replace(thinks, `"x"`, `""`, 1) + `,` + says, "input[1]: reasoning without encrypted_content"},
		{"reasoning without id", oUser + `,` + strings.Replace(thinks, `rs_1`, ``, 1) + `,` + says, "reasoning needs its id"},
		{"arguments as an object", oUser + `,` + strings.Replace(calls, `"{}"`, `{}`, 1) + `,` + gives, "function_call needs"},
		{"output as an object", oUser + `,` + calls + `,` + strings.Replace(gives, `"1"`, `{}`, 1), "function_call_output needs"},
		{"parts of another wire", `{"role":"user","content":[{"type":"text","text":"x"}]}`, "the type \"text\" of the role user"},
		{"unknown item", oUser + `,{"type":"custom"}`, "unknown type"},
		{"unknown role", `{"role":"tool","content":"x"}`, "unknown role"},
		{"no content", `{"role":"user"}`, "content: neither"},
		{"no model", oUser + `],"model":"","x":[`, "model: missing"},
		{"nested tool", oUser + `],"tools":[{"type":"function","function":{"name":"f"}}],"x":[`, "tools[0]: needs"},
		{"strict tool", oUser + `],"tools":[` + strings.Replace(tool, `,"strict":false`, ``, 1) + `],"x":[`, "tools[0]: strict"},
		{"tool twice", oUser + `],"tools":[` + tool + `,` + tool + `],"x":[`, "tools[1]: a second one"},
		{"too short", oUser + `],"max_output_tokens":15,"x":[`, "below 16"},
		{"effort", oUser + `],"reasoning":{"effort":"heroic"},"x":[`, "unknown effort"},
		{"parameter of another wire", oUser + `],"max_tokens":100,"x":[`, "max_tokens: unknown parameter"},
	})
}

func TestLegalBodies(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1beta/models/m:generateContent", "/api/chat", "/v1/responses"} {
		for body, want := range map[string]string{"": "the body", "[]": "the body", "{\"messages\":[{\"content\":\"\xff\"}]}": "not UTF-8"} {
			r := &Request{Path: path, Header: http.Header{"Anthropic-Version": {"x"}}, Body: []byte(body)}
			if err := r.Legal(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: got %v, want %q", path, body, err, want)
			}
		}
	}
	if err := (&Request{Path: "/api/show", Body: []byte(`{"model":"m"}`)}).Legal(); err != nil {
		t.Errorf("a list: got %v", err)
	}
}

// TestLegalRecorded checks Legal on recorded requests.
func TestLegalRecorded(t *testing.T) {
	each(t, func(t *testing.T, c client, stream bool) {
		s := start(t, Turn{Text: "x", Times: 2})
		c.ask(t, s, stream, "hi")
		c.body = strings.NewReplacer(`"user"`, `"robot"`).Replace(c.body)
		c.ask(t, s, stream, "hi")
		asked := s.Requests()
		if err := asked[0].Legal(); err != nil {
			t.Errorf("got %v for %s", err, asked[0].Body)
		}
		if err := asked[1].Legal(); err == nil || !strings.Contains(err.Error(), `unknown role "robot"`) {
			t.Errorf("got %v for %s", err, asked[1].Body)
		}
	})
}

// FuzzRequest checks on every wire that arbitrary bodies can be parsed and checked,
// and that a legal request is answered.
func FuzzRequest(f *testing.F) {
	f.Add(uint8(0), `{"model":"m","messages":[`+oUser+`,`+oAsks2+`,`+oToolA+`,`+oToolB+`]}`)
	f.Add(uint8(1), `{"model":"m","max_tokens":9,"messages":[`+aUser+`,`+aAsks+`,`+aGives(aResA, aText)+`]}`)
	f.Add(uint8(2), `{"contents":[`+gUser+`,`+gAsks2+`,`+gGives(gResA, gResB)+`]}`)
	f.Add(uint8(3), `{"model":"m","messages":[`+oUser+`]}`)
	f.Add(uint8(4), `{"model":"m","input":[`+oUser+`,{"type":"reasoning","id":"r","summary":[]},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":""}]}`)
	f.Add(uint8(1), `{"system":null,"messages":null}`)
	wires := []struct {
		path string
		wire *dialect
	}{{"/v1/chat/completions", &openai}, {"/v1/messages", &anthropic}, {"/v1beta/models/m:generateContent", &gemini}, {"/api/chat", &ollama}, {"/v1/responses", &responses}}
	f.Fuzz(func(t *testing.T, n uint8, body string) {
		w := wires[int(n)%len(wires)]
		in, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h"+w.path, nil)
		zinotest.Must(t, err)
		in.SetPathValue("call", "m:generateContent")
		_, bad := w.wire.read(in, []byte(body))
		r := &Request{Path: w.path, Header: http.Header{"Anthropic-Version": {"x"}}, Body: []byte(body)}
		if r.Legal() == nil && bad != nil {
			t.Errorf("legal and refused: %v", bad)
		}
	})
}
