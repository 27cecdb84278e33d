package render

import "zino/proto"

// Types of the packets of turn_follow that are not events of a chat.
const (
	TypeUserMessage = "user_message"
	TypeLive        = "live"
	TypeTurnState   = "turn_state"
	TypeTurnEnded   = "turn_ended"
	TypeRetracted   = "retracted"
	TypeContinued   = "continued"
)

// UserMessage is a message of the user in a turn.
type UserMessage struct {
	Turn string `json:"turn,omitzero"`
	Text string `json:"text"`
	Via  string `json:"via,omitzero"`
}

// TurnState is a change of a turn's state.
type TurnState struct {
	State    string `json:"state"`
	Reason   string `json:"reason,omitzero"`
	Approval string `json:"approval,omitzero"`
	Until    string `json:"until,omitzero"`
}

// TurnEnd is the end of a turn. Result is the packet done or error that a chat would
// have ended with.
type TurnEnd struct {
	Turn     string      `json:"turn,omitzero"`
	State    string      `json:"state"`
	Reason   string      `json:"reason,omitzero"`
	Replay   bool        `json:"replay,omitzero"`
	Result   proto.Raw   `json:"result,omitzero"`
	Returned []proto.Say `json:"returned,omitzero"`
}

// Continued is where a turn goes on.
type Continued struct {
	SessionID string `json:"session_id"`
	Turn      string `json:"turn,omitzero"`
}
