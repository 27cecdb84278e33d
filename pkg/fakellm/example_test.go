package fakellm_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"zino/pkg/fakellm"
)

// One script answers on every wire.
func Example() {
	turns, err := fakellm.Parse(`
=== reply match="time" usage=9,5 times=2
Let me look.
@call execute_bash id=c1 {"code":"date"}
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	llm := fakellm.New(turns...)
	defer llm.Close()
	ask := func(url, body string) {
		resp, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		fmt.Println(strings.TrimSpace(string(answer)), err)
	}
	const messages = `"messages":[{"role":"user","content":"What time is it?"}]`
	ask(llm.URL+"/chat/completions", `{"model":"m",`+messages+`}`)
	ask(llm.Host+"/v1/messages", `{"model":"m","max_tokens":99,`+messages+`}`)
	fmt.Println(len(llm.Requests()), llm.Unused(), llm.Requests()[0].Legal())
	// Output:
	// {"choices":[{"finish_reason":"tool_calls","index":0,"message":{"content":"Let me look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"code\":\"date\"}","name":"execute_bash"},"id":"c1","type":"function"}]}}],"created":0,"id":"chatcmpl-fake","model":"m","object":"chat.completion","usage":{"completion_tokens":5,"prompt_tokens":9,"total_tokens":14}} <nil>
	// {"content":[{"text":"Let me look.","type":"text"},{"id":"c1","input":{"code":"date"},"name":"execute_bash","type":"tool_use"}],"id":"msg_fake","model":"m","role":"assistant","stop_reason":"tool_use","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":9,"output_tokens":5}} <nil>
	// 2 0 <nil>
}
