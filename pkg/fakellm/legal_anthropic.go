package fakellm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Limits of Anthropic's API.
const (
	maxBreakpoints = 4    // cache_control in a request
	minBudget      = 1024 // tokens of thinking
)

// plainID matches valid names of tools and ids of calls.
var plainID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

type anthropicRequest struct {
	Model     string             `json:"model"`
	MaxTokens int                `json:"max_tokens"`
	System    json.RawMessage    `json:"system"`
	Messages  []anthropicMessage `json:"messages"`
	Tools     []struct {
		Name         string          `json:"name"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl json.RawMessage `json:"cache_control"`
	} `json:"tools"`
	Thinking struct {
		Type         string `json:"type"`
		BudgetTokens int    `json:"budget_tokens"`
	} `json:"thinking"`
	Output struct {
		Effort string        `json:"effort"`
		Format *answerFormat `json:"format"`
	} `json:"output_config"`
	Temperature  *float64        `json:"temperature"`
	TopP         *float64        `json:"top_p"`
	CacheControl json.RawMessage `json:"cache_control"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicBlock struct {
	Type         string          `json:"type"`
	Text         string          `json:"text"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	ToolUseID    string          `json:"tool_use_id"`
	Content      json.RawMessage `json:"content"`
	Signature    string          `json:"signature"`
	Data         string          `json:"data"`
	Source       json.RawMessage `json:"source"`
	CacheControl json.RawMessage `json:"cache_control"`
}

func legalAnthropic(r *Request) error {
	var in anthropicRequest
	if err := decodeBody(r.Body, &in); err != nil {
		return err
	}
	if err := in.Output.Format.legal(false); err != nil {
		return fmt.Errorf("output_config: %w", err)
	}
	switch {
	case len(r.Body) > anthropicBody:
		return errors.New("request_too_large")
	case strings.Count(string(r.Body), `{"type":"image",`) > anthropicImages:
		return errors.New("too many images")
	case r.Header.Get("Anthropic-Version") == "":
		return errors.New("header anthropic-version: missing")
	case in.Model == "":
		return errors.New("model: missing")
	case in.MaxTokens <= 0:
		return errors.New("max_tokens: missing")
	}
	if err := in.thinks(); err != nil {
		return err
	}
	if err := in.tools(); err != nil {
		return err
	}
	return in.messages()
}

// thinks checks the parameters for reasoning, and that sampling parameters have their
// defaults if it is on.
func (in *anthropicRequest) thinks() error {
	budget := in.Thinking.BudgetTokens
	switch in.Thinking.Type {
	case "", "disabled":
		return nil
	case "adaptive":
		if budget != 0 {
			return errors.New("thinking: budget_tokens with adaptive thinking")
		}
	case "enabled":
		if budget < minBudget || budget >= in.MaxTokens {
			return fmt.Errorf("thinking: budget_tokens is not from %d to below max_tokens", minBudget)
		}
	default:
		return fmt.Errorf("thinking: unknown type %q", in.Thinking.Type)
	}
	switch {
	case !slices.Contains([]string{"", "low", "medium", "high", "xhigh", "max"}, in.Output.Effort):
		return fmt.Errorf("output_config: unknown effort %q", in.Output.Effort)
	case in.Temperature != nil && *in.Temperature != 1 || in.TopP != nil && *in.TopP < 0.95:
		return errors.New("temperature or top_p beside thinking")
	}
	return nil
}

func (in *anthropicRequest) tools() error {
	var names []string
	for i, t := range in.Tools {
		if !plainID.MatchString(t.Name) || !isObject(t.InputSchema) {
			return fmt.Errorf("tools[%d]: needs a plain name, and an object as input_schema", i)
		}
		names = append(names, t.Name)
	}
	return distinct(names)
}

// messages checks the messages, and the number of breakpoints in the request.
func (in *anthropicRequest) messages() error {
	prompt, err := contentBlocks(in.System)
	if err != nil {
		return fmt.Errorf("system: %w", err)
	}
	marked := in.marked() + breakpoints(prompt)
	list := make([]said, len(in.Messages))
	var last []anthropicBlock // of the assistant
	for i, m := range in.Messages {
		blocks, s, err := m.said()
		if err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		list[i] = s
		marked += breakpoints(blocks)
		if m.Role == assistant {
			last = blocks
		}
	}
	if marked > maxBreakpoints {
		return fmt.Errorf("cache_control: %d of them, above %d", marked, maxBreakpoints)
	}
	if err := cmp.Or(ordered(list), alternating(list), distinctCalls(list)); err != nil {
		return err
	}
	return in.keepsThinking(list, last)
}

// marked counts the breakpoints outside of blocks.
func (in *anthropicRequest) marked() (n int) {
	if !absent(in.CacheControl) {
		n++
	}
	for _, t := range in.Tools {
		if !absent(t.CacheControl) {
			n++
		}
	}
	return n
}

func breakpoints(blocks []anthropicBlock) (n int) {
	for _, b := range blocks {
		if !absent(b.CacheControl) {
			n++
		}
	}
	return n
}

// keepsThinking checks that, with thinking enabled, the reasoning before the last
// calls is sent back with their results.
func (in *anthropicRequest) keepsThinking(list []said, last []anthropicBlock) error {
	if in.Thinking.Type != "enabled" || len(list) == 0 || len(list[len(list)-1].results) == 0 {
		return nil
	}
	if !strings.HasSuffix(last[0].Type, "thinking") {
		return errors.New("messages: with thinking, the message with the last calls does not begin with a thinking block")
	}
	return nil
}

// distinctCalls checks that all calls of a conversation have different ids.
func distinctCalls(list []said) error {
	var ids []string
	for i, m := range list {
		for _, call := range m.calls {
			if slices.Contains(ids, call.id) {
				return fmt.Errorf("messages[%d]: a second call with the id %s", i, call.id)
			}
			ids = append(ids, call.id)
		}
	}
	return nil
}

// contentBlocks parses a content, a string or a list of blocks. Blank text is an
// error.
func contentBlocks(raw json.RawMessage) ([]anthropicBlock, error) {
	if absent(raw) {
		return nil, nil
	}
	var blocks []anthropicBlock
	if isText(raw) {
		blocks = []anthropicBlock{{Type: "text", Text: plain(raw)}}
	} else if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, errors.New("content: neither text nor blocks")
	}
	for i, b := range blocks {
		if b.Type == "text" && strings.TrimSpace(b.Text) == "" {
			return nil, fmt.Errorf("content[%d]: blank text", i)
		}
	}
	return blocks, nil
}

// said checks a single message.
func (m anthropicMessage) said() ([]anthropicBlock, said, error) {
	if m.Role != user && m.Role != assistant {
		return nil, said{}, fmt.Errorf("unknown role %q", m.Role)
	}
	blocks, err := contentBlocks(m.Content)
	if err == nil && len(blocks) == 0 {
		err = errors.New("content: empty")
	}
	if err != nil {
		return nil, said{}, err
	}
	out, err := saidBlocks(m.Role, blocks)
	return blocks, out, err
}

// saidBlocks checks the blocks of a message.
func saidBlocks(role string, blocks []anthropicBlock) (said, error) {
	out := said{role: role}
	for i, b := range blocks {
		switch err := b.check(role); {
		case err != nil:
			return out, fmt.Errorf("content[%d]: %w", i, err)
		case b.Type == "tool_use":
			out.calls = append(out.calls, ref{id: b.ID, name: b.Name})
		case b.Type == "tool_result" && len(out.results) < i:
			return out, fmt.Errorf("content[%d]: a result behind something else", i)
		case b.Type == "tool_result":
			out.results = append(out.results, ref{id: b.ToolUseID})
		}
	}
	return out, nil
}

// check checks a single block.
func (b anthropicBlock) check(role string) error {
	of := ""
	switch b.Type {
	case "text":
		return nil
	case "image", "document":
		of = user
		if err := legalAnthropicFile(b.Type, b.Source); err != nil {
			return err
		}
	case "tool_use":
		of = assistant
		if !plainID.MatchString(b.ID) || !plainID.MatchString(b.Name) || !isObject(b.Input) {
			return errors.New("tool_use needs a plain id and name, and an object as input")
		}
	case "tool_result":
		of = user
		if b.ToolUseID == "" {
			return errors.New("a result without tool_use_id")
		}
		blocks, err := contentBlocks(b.Content)
		if err != nil && !isText(b.Content) {
			return err
		}
		for i, inner := range blocks {
			if !isText(b.Content) && !slices.Contains([]string{"text", "image", "document"}, inner.Type) {
				return fmt.Errorf("content[%d]: %q in a tool_result", i, inner.Type)
			}
			if err := inner.check(user); err != nil {
				return fmt.Errorf("content[%d]: %w", i, err)
			}
		}
	case "thinking", "redacted_thinking":
		of = assistant
		if b.Signature+b.Data == "" || !absent(b.CacheControl) {
			return fmt.Errorf("%s needs its signature or data, and no cache_control", b.Type)
		}
	default:
		return fmt.Errorf("unknown type %q", b.Type)
	}
	if role != of {
		return fmt.Errorf("%s in a message of the role %s", b.Type, role)
	}
	return nil
}
