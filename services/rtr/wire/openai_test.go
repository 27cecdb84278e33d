package wire

import "testing"

func TestOpenAIStream(t *testing.T) {
	everyWay(t, OpenAI, ask(t, nil), ": ping\n\n"+
		`data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n"+
		`data:{"choices":[{"index":0,"delta":{"reasoning_content":"let me "}}]}`+"\r\n\r\n"+
		`data: {"choices":[{"index":0,"delta":{"reasoning_content":"see"}}]}`+"\n\n"+
		`data: {"choices":[{"index":0,"delta":{"content":"Grü\u00dfe 🌍"}}]}`+"\n\n"+
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]}`+"\n\n"+
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}}]}`+"\n\n"+
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}},{"index":0,"function":{"arguments":"1}"}}]}}]}`+"\n\n"+
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\n"+
		`data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":2}}}`+"\n\n"+
		"data: [DONE]\n\n",
		[]string{
			"reasoning 0 let me see", "text 0 Grüße 🌍", "tool 0 a f", `args 0 {"x":`, "tool 1 b g", "args 1 {}", "args 0 1}",
			`used {"input_tokens":10,"output_tokens":5,"cache_read_tokens":8,"reasoning_tokens":2}`,
			`state {"provider":"openai","model":"m","content":{"fields":{"reasoning_content":"let me see"}}}`,
			"finish tool_calls",
		}, "")
}
