package acp

import (
	"encoding/json"

	"github.com/sourcegraph/jsonrpc2"

	"zino/proto"
)

// object is a message's part in JSON. The two versions of the protocol differ in many
// small ways, so that types would hide more than they say.
type object = map[string]any

// initialize are the parameters of that method, of both versions.
type initialize struct {
	ProtocolVersion int `json:"protocolVersion"`
	// Of version 1:
	ClientCapabilities struct {
		FS struct {
			ReadTextFile bool `json:"readTextFile"`
		} `json:"fs"`
		Session struct {
			Notices *struct{} `json:"notices"`
		} `json:"session"`
		Auth struct {
			Terminal bool `json:"terminal"`
		} `json:"auth"`
		Elicitation elicitation `json:"elicitation"`
	} `json:"clientCapabilities"`
	// Of version 2:
	Capabilities struct {
		Auth struct {
			Terminal *struct{} `json:"terminal"`
		} `json:"auth"`
		Elicitation elicitation `json:"elicitation"`
	} `json:"capabilities"`
}

// elicitation is the input that the client can ask its user for.
type elicitation struct {
	Form *struct{} `json:"form"`
	URL  *struct{} `json:"url"`
}

// sessionParams are the parameters of the methods about sessions.
type sessionParams struct {
	SessionID  string      `json:"sessionId"`
	Cwd        string      `json:"cwd"`
	MCPServers []mcpServer `json:"mcpServers"`
	Cursor     string      `json:"cursor"`
	ReplayFrom *struct {
		Type string `json:"type"`
	} `json:"replayFrom"`
	Prompt   []content       `json:"prompt"`
	ConfigID string          `json:"configId"`
	Value    json.RawMessage `json:"value"`

	request jsonrpc2.ID
	raw     json.RawMessage // all of them
}

// rawPrompt returns the blocks of the prompt as they were received.
func (p *sessionParams) rawPrompt() json.RawMessage {
	var received struct {
		Prompt json.RawMessage `json:"prompt"`
	}
	if json.Unmarshal(p.raw, &received) != nil || received.Prompt == nil {
		return json.RawMessage("[]")
	}
	return received.Prompt
}

// mcpServer is a server that the client brings.
type mcpServer struct {
	Type    string   `json:"type"` // "stdio" if absent
	Name    string   `json:"name"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Env     []pair   `json:"env"`
	URL     string   `json:"url"`
	Headers []pair   `json:"headers"`
}

type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// content is a block of a prompt.
type content struct {
	Type     string `json:"type"` // text, image, audio, resource_link or resource
	Text     string `json:"text"`
	Data     []byte `json:"data"`
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource struct {
		URI      string  `json:"uri"`
		Text     *string `json:"text"`
		Blob     []byte  `json:"blob"`
		MIMEType string  `json:"mimeType"`
	} `json:"resource"`
}

// permission is the answer to session/request_permission.
type permission struct {
	Outcome struct {
		Outcome  string `json:"outcome"` // selected or cancelled
		OptionID string `json:"optionId"`
	} `json:"outcome"`
}

// textBlock is a block of text.
func textBlock(text string) object { return object{"type": "text", "text": text} }

// toolContent is a block of a call's content.
func toolContent(text string) object {
	return object{"type": "content", "content": textBlock(text)}
}

// raw returns JSON for an object, nil if it is absent.
func raw(r proto.Raw) any {
	if len(r) == 0 {
		return nil
	}
	return json.RawMessage(r)
}
