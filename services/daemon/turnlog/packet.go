package turnlog

import (
	"strconv"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
)

// Packet adds the next event, and appends the payload of its packet of turn_follow to b,
// if it has one. next is the offset behind the event. replay marks a packet of the past.
// turn is the turn of the event; the packet continued names the turn that follows it.
func (l *Log) Packet(b, raw []byte, next int64, replay bool) (payload []byte, turn string) {
	c := l.add(raw, next)
	if c.turn != nil {
		turn = c.turn.ID
	} else {
		turn = str(c.turnID)
	}
	p := packet{b: b, change: &c, raw: raw, next: next, replay: replay}
	switch c.kind {
	case proto.TypeMessage:
		switch {
		case !c.isMessage():
		case c.fromUser():
			p.user()
		case string(c.text) != `""`:
			p.copy(proto.TypeAssistantFinal, nil, "role", "reasoning_state")
		}
	case proto.TypeToolUse:
		if isText(c.id) && isText(c.name) {
			p.copy(proto.TypeToolRequested, nil, "reasoning_state")
		}
	case proto.TypeToolResult:
		if isText(c.useID) {
			p.result()
		}
	case proto.TypeMode, proto.TypeUsage, proto.TypeTodo, proto.TypeTools, proto.TypeUndo, proto.TypeInterrupted:
		p.copy(c.kind, nil)
	case proto.TypeTurn:
		switch {
		case c.log == nil:
		case c.log.State == proto.TurnContinued:
			p.continued(l)
		case proto.TurnEnded(c.log.State):
			p.ended()
		default:
			p.state()
		}
	}
	return p.b, turn
}

// packet is a packet under construction.
type packet struct {
	*change
	b, raw []byte
	next   int64
	replay bool
}

// begin appends the type and the turn.
func (p *packet) begin(typ string) {
	p.b = append(append(append(p.b, `{"type":"`...), typ...), '"')
	switch {
	case p.turn != nil:
		p.b = wire.AppendString(append(p.b, `,"turn":`...), p.turn.ID)
	case isText(p.turnID):
		p.b = append(append(p.b, `,"turn":`...), p.turnID...)
	}
}

// end appends the offset and the mark of a replay.
func (p *packet) end() {
	p.b = strconv.AppendInt(append(p.b, `,"next":`...), p.next, 10)
	if p.replay {
		p.b = append(p.b, `,"replay":true`...)
	}
	p.b = append(p.b, '}')
}

func (p *packet) key(key string) {
	p.b = append(wire.AppendString(append(p.b, ','), key), ':')
}

// object appends a member that is an object of ours.
func (p *packet) object(key, typ string, v any) {
	p.key(key)
	b, err := wire.AppendObject(p.b, typ, v)
	if err != nil {
		panic(err) // cannot happen: strings and numbers that were decoded can be encoded
	}
	p.b = b
}

func (p *packet) string(key, value string) {
	if value != "" {
		p.key(key)
		p.b = wire.AppendString(p.b, value)
	}
}

// copy appends a packet with the members of the event, unknown ones included. It renames
// and leaves out some of them.
func (p *packet) copy(typ string, rename map[string]string, leftOut ...string) {
	p.begin(typ)
	p.members(rename, leftOut...)
	p.end()
}

func (p *packet) members(rename map[string]string, leftOut ...string) {
members:
	for key, value := range wire.Members(p.raw) {
		switch string(key) {
		case "type", "turn", "next", "replay":
			continue
		}
		for _, name := range leftOut {
			if string(key) == name {
				continue members
			}
		}
		if name, ok := rename[string(key)]; ok {
			p.key(name)
		} else {
			p.b = append(wire.AppendString(append(p.b, ','), key), ':')
		}
		p.b = append(p.b, value...)
	}
}

func (p *packet) user() {
	p.begin(proto.TypeUserMessage)
	p.members(nil, "role", "by", "reasoning_state")
	if len(p.via) == 0 {
		p.string("via", proto.ViaStart)
	}
	if p.by != nil {
		p.object("by", "", *p.by)
	}
	p.end()
}

// ofResult are the members of tool_finished with other names than in tool_result.
var ofResult = map[string]string{"tool_use_id": "id", "output": "result"}

// result appends a tool_finished. Older logs lack the call's name.
func (p *packet) result() {
	p.begin(proto.TypeToolFinished)
	if len(p.name) == 0 {
		p.string("name", p.tool)
	}
	p.members(ofResult)
	p.end()
}

func (p *packet) state() {
	s := p.log
	p.begin(proto.TypeTurnState)
	p.string("state", s.State)
	p.string("reason", s.Reason)
	p.string("approval", s.Approval)
	p.string("until", s.Until)
	if s.Attempt > 0 {
		p.key("attempt")
		p.b = strconv.AppendInt(p.b, int64(s.Attempt), 10)
	}
	if s.State == proto.TurnResumed { // a parked event has it for the resumed one
		p.string("discarded", s.Discarded)
	}
	p.string("ts", s.TS)
	p.end()
}

// continued appends the packet that names the new session and the turn there.
func (p *packet) continued(l *Log) {
	s := p.log
	p.b = append(append(append(p.b, `{"type":"`...), proto.TypeContinued...), '"')
	p.string("session_id", s.To)
	p.string("turn", s.ToTurn)
	p.string("from_session_id", l.ID)
	p.string("ts", s.TS)
	p.end()
}

// done is the result of a turn with an answer.
type done struct {
	FullText   string       `json:"full_text"`
	Iterations int          `json:"iterations"`
	StopReason string       `json:"stop_reason,omitzero"`
	Structured proto.Raw    `json:"structured,omitzero"`
	Usage      *proto.Usage `json:"usage,omitzero"`
	Provider   string       `json:"provider,omitzero"`
	Model      string       `json:"model,omitzero"`
}

func (p *packet) ended() {
	s, t := p.log, p.turn
	p.begin(proto.TypeTurnEnded)
	p.string("state", s.State)
	p.string("reason", s.Reason)
	p.string("ts", s.TS)
	switch s.State {
	case proto.TurnDone:
		p.object("result", proto.TypeDone, done{str(p.answer), s.Iterations, s.StopReason, s.Structured, s.Usage, t.provider, t.model})
	case proto.TurnError:
		e := p.failed
		if e.Code == "" {
			e = proto.Error{Code: proto.CodeInternal, Message: s.Reason}
		}
		p.object("result", proto.TypeError, e)
	default:
		p.object("result", proto.TypeError, proto.Error{Code: proto.CodeCanceled, Message: interruptedText(s.Reason), Service: "daemon"})
	}
	if len(p.returned) > 0 {
		p.b = append(p.b, `,"returned":[`...)
		for i, r := range p.returned {
			if i > 0 {
				p.b = append(p.b, ',')
			}
			p.b = append(wire.AppendString(append(p.b, `{"say":`...), r.Say), `,"text":`...)
			p.b = append(wire.AppendString(p.b, r.Text), '}')
		}
		p.b = append(p.b, ']')
	}
	p.end()
}

// interruptedText is the message of the error canceled of a turn.
func interruptedText(reason string) string {
	if reason == "" || reason == string(proto.CodeCanceled) {
		return "The turn was interrupted."
	}
	return "The turn was interrupted: " + strings.TrimSuffix(reason, ".") + "."
}
