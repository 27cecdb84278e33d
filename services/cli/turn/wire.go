package turn

import "zino/proto"

// Methods of the daemon.
var (
	methodStart  = proto.Method[startRequest, Started]{Service: "daemon", Type: "turn_start", Reply: "turn"}
	methodFollow = proto.Method[followRequest, followed]{Service: "daemon", Type: "turn_follow", Reply: "followed"}
	methodSay    = proto.Method[SayRequest, Said]{Service: "daemon", Type: "turn_say", Reply: "said"}
	methodCancel = proto.Method[cancelRequest, Started]{Service: "daemon", Type: "turn_cancel", Reply: "turn"}
	methodTurns  = proto.Method[ListRequest, listReply]{Service: "daemon", Type: "turns", Reply: "turn_list"}
)

type startRequest struct {
	Message      string            `json:"message"`
	SessionID    string            `json:"session_id,omitzero"`
	NeedModel    bool              `json:"need_model,omitzero"`
	Root         string            `json:"root,omitzero"`
	SystemPrompt *string           `json:"system_prompt,omitzero"`
	Provider     string            `json:"provider,omitzero"`
	Model        string            `json:"model,omitzero"`
	MaxTokens    int               `json:"max_tokens,omitzero"`
	Effort       string            `json:"effort,omitzero"`
	Sandbox      proto.Level       `json:"sandbox,omitzero"`
	Network      *bool             `json:"network,omitzero"`
	Env          map[string]string `json:"env,omitzero"`
	Cwd          string            `json:"cwd,omitzero"`
	Umask        *int              `json:"umask,omitzero"`
	RequestID    string            `json:"request_id,omitzero"`
}

// Started is a turn and its state.
type Started struct {
	SessionID string `json:"session_id"`
	Turn      string `json:"turn"`
	State     string `json:"state"`
	Next      *int64 `json:"next,omitzero"`
	Durable   *bool  `json:"durable,omitzero"`
}

type followRequest struct {
	SessionID string `json:"session_id"`
	Turn      string `json:"turn,omitzero"`
	From      *int64 `json:"from,omitzero"`
}

type followed struct {
	SessionID string `json:"session_id"`
	Turn      string `json:"turn,omitzero"`
	State     string `json:"state,omitzero"`
	Reason    string `json:"reason,omitzero"`
	Next      int64  `json:"next,omitzero"`
}

// SayRequest is a message for an open turn.
type SayRequest struct {
	SessionID string `json:"session_id"`
	Text      string `json:"text"`
	Mode      string `json:"mode,omitzero"`
	Turn      string `json:"turn,omitzero"`
	RequestID string `json:"request_id,omitzero"`
	Say       string `json:"say,omitzero"`
}

// Said is the answer to a SayRequest.
type Said struct {
	SessionID string `json:"session_id"`
	Turn      string `json:"turn"`
	Say       string `json:"say"`
	Mode      string `json:"mode"`
	Position  int    `json:"position"`
}

type cancelRequest struct {
	SessionID string `json:"session_id"`
	Turn      string `json:"turn,omitzero"`
	Jobs      bool   `json:"jobs,omitzero"`
}

// ListRequest asks for turns.
type ListRequest struct {
	All       bool   `json:"all,omitzero"`
	SessionID string `json:"session_id,omitzero"`
	Limit     int    `json:"limit,omitzero"`
}

type listReply struct {
	Turns []Info `json:"turns"`
}

// Info is a turn of the daemon.
type Info struct {
	SessionID    string    `json:"session_id"`
	Turn         string    `json:"turn"`
	State        string    `json:"state"`
	Reason       string    `json:"reason,omitzero"`
	Until        string    `json:"until,omitzero"`
	Text         string    `json:"text"`
	Root         string    `json:"root,omitzero"`
	Started      string    `json:"started"`
	Updated      string    `json:"updated,omitzero"`
	Step         int       `json:"step,omitzero"`
	Activity     string    `json:"activity,omitzero"`
	Attempts     int       `json:"attempts,omitzero"`
	InputTokens  int64     `json:"input_tokens,omitzero"`
	OutputTokens int64     `json:"output_tokens,omitzero"`
	CostUSD      *float64  `json:"cost_usd,omitzero"`
	Followers    int       `json:"followers,omitzero"`
	Queued       int       `json:"queued,omitzero"`
	Jobs         proto.Raw `json:"jobs,omitzero"`
	By           proto.By  `json:"by,omitzero"`
}
