package proto

// Methods of the daemon, the entrance for clients.
var (
	// DaemonChat takes a message and answers it: prompt, agent, history. The
	// request has no "type".
	DaemonChat = textMethod[Chat]("daemon", "", "response")
	// DaemonForward passes a request on to another service and that service's
	// answer back as it is. Only what people need is on its list:
	// ping, describe and stats of all, capabilities of rtr and exc, get of sys,
	// histories, memories, soft memory and sessions of mem; of the sessions what
	// lists, reads, searches, exports, forks and removes them. Anything else is
	// the error denied.
	DaemonForward = method[Forward, Empty]("daemon", "forward", "")
)

// Chat is a message to the assistant.
type Chat struct {
	// Message is the user's text. White space around it is dropped; a blank
	// one is answered with the error "Empty message.".
	Message string `json:"message,omitzero"`
	// ChannelID names the history that the turn belongs to. Without it nothing
	// is remembered.
	ChannelID string `json:"channel_id,omitzero"`
	// Stream asks for chunks as they come.
	Stream bool `json:"stream,omitzero"`
	// NeedModel makes it an error if no model can be asked and the offline
	// provider would answer in its place.
	NeedModel bool `json:"need_model,omitzero"`
}

// Streaming reports whether the caller asked for chunks.
func (c Chat) Streaming() bool { return c.Stream }

// Forward is a request for another service.
type Forward struct {
	// Service is the short name of the service: daemon, rtr, agr, sys, exc, mem or ctx.
	Service string `json:"service"`
	// Request is the whole request for it, an object with its "type".
	Request Raw `json:"request"`
}
