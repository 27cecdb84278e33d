// Mcpserver is an MCP server on standard input and output that answers at once. Its
// argument is its number of tools.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err == nil {
		err = serve(n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcpserver:", err)
		os.Exit(1)
	}
}

func serve(n int) error {
	var tools []string
	for i := range n {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%d","description":"Creates, lists or changes things of kind %[1]d in a repository.","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`, i))
	}
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`,
		"tools/list": `{"tools":[` + strings.Join(tools, ",") + `]}`,
		"tools/call": `{"content":[{"type":"text","text":"The bread is in the oven."}]}`,
		"ping":       `{}`,
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil // the end of the input
		}
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(line, &req); err != nil {
			return err
		}
		if req.ID == nil {
			continue
		}
		reply := `"error":{"code":-32601,"message":"unknown method"}`
		if result, ok := results[req.Method]; ok {
			reply = `"result":` + result
		}
		if _, err := fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", req.ID, reply); err != nil {
			return err
		}
	}
}
