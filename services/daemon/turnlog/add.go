package turnlog

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// textMax is how many characters of a message Turn.Text has.
const textMax = 80

// change is an event and what it changed.
type change struct {
	event
	turn     *Turn          // that the event belongs to; nil: none that counts
	log      *proto.LogTurn // a turn event that counts
	by       *proto.By      // of a user's message
	tool     string         // name of the call of a result
	answer   []byte         // of an ended turn: the last text, as a JSON string
	failed   proto.Error    // of an ended turn: the error
	returned []returned     // of an ended turn: messages that go back to the user
}

// returned is a message that will not be delivered.
type returned struct {
	Say  string `json:"say"`
	Text string `json:"text"`
}

// Add adds the next event; next is the offset behind it.
func (l *Log) Add(raw []byte, next int64) { l.add(raw, next) }

func (l *Log) add(raw []byte, next int64) change {
	c := change{event: parse(raw)}
	start := l.Next
	l.Next = next
	if !is(c.ts, l.Updated) { // without an allocation for events of the same second
		l.Updated = cmp.Or(str(c.ts), l.Updated)
	}
	if c.kind == proto.TypeTurn {
		l.setState(&c, raw, start)
		return c
	}
	if c.turn = l.active; c.turn == nil || len(c.turnID) > 0 && !is(c.turnID, c.turn.ID) {
		c.turn = l.byID[str(c.turnID)]
	}
	if c.turn != nil && c.turn.End == 0 && len(c.ts) > 0 {
		c.turn.Updated = l.Updated
	}
	switch c.kind {
	case proto.TypeMeta:
		if start == 0 && wire.DecodeReply(raw, &l.Meta) != nil {
			l.Meta = proto.LogMeta{}
		}
	case proto.TypeMessage:
		l.message(&c, start)
	case proto.TypeToolUse:
		call := openCall{turn: str(c.turnID), OpenCall: proto.OpenCall{
			ID: str(c.id), Step: int(number(c.step)), Name: str(c.name), Input: bytes.Clone(c.input), Since: str(c.ts),
		}}
		if len(c.runInput) > 0 && c.runInput[0] == '{' {
			call.RunInput = bytes.Clone(c.runInput)
		}
		if len(c.hook) > 0 {
			call.Hook = &proto.HookVerdict{}
			if wire.DecodeReply(c.hook, call.Hook) != nil { // it was changed by hand: nothing runs
				call.Hook = &proto.HookVerdict{Decision: proto.HookDeny, Reason: "its verdict in the session log is damaged"}
			}
		}
		if c.turn != nil {
			call.turn = c.turn.ID
		}
		l.calls = append(l.calls, call)
		c.turn.progress(&c.event)
		c.turn.delegate(call.OpenCall)
	case proto.TypeToolResult:
		call := l.settle(str(c.useID))
		c.tool = call.Name
		l.setJob(call, c.output)
		if !isTrue(c.synthetic) {
			c.turn.progress(&c.event)
		}
		if c.turn != nil {
			c.turn.text = c.turn.text[:0]
			c.turn.Results += int64(len(c.output))
		}
		var used proto.Usage
		if len(c.usage) > 0 && c.turn != nil && c.turn.End == 0 && wire.DecodeReply(c.usage, &used) == nil {
			c.turn.Usage.Add(used)
		}
	case proto.TypeUsage:
		c.turn.progress(&c.event)
		c.turn.use(&c.event)
	case proto.TypeSay:
		l.say(&c, raw)
	case proto.TypeMode:
		var m proto.LogMode
		if c.turn != nil && c.turn.End == 0 && wire.DecodeReply(raw, &m) == nil {
			l.setMode(c.turn, m)
		}
	case proto.TypeHook:
		var h proto.LogHook
		if wire.DecodeReply(raw, &h) == nil && h.SHA256 != "" {
			if l.Timeouts == nil {
				l.Timeouts = map[string]int{}
			}
			l.Timeouts[h.SHA256]++
		}
	case proto.TypeTodo:
		var todo proto.Todo
		if wire.DecodeReply(raw, &todo) == nil {
			l.Todo = todo.Items
		}
	case proto.TypeError:
		var e proto.LogError
		if wire.DecodeReply(raw, &e) == nil {
			l.failed = proto.Error{Message: e.Message, Kind: e.Kind, Code: e.Code, Service: e.Service, Status: e.Status, Details: e.Details}
		}
	}
	return c
}

// setState applies a turn event. It ignores those of other sessions, of unknown states,
// and behind a turn's end.
func (l *Log) setState(c *change, raw []byte, start int64) {
	var s proto.LogTurn
	if wire.DecodeReply(raw, &s) != nil || s.Turn == "" {
		return
	}
	t := l.byID[s.Turn]
	begins := s.State == proto.TurnQueued || s.State == proto.TurnRunning
	switch {
	case t == nil && (!begins || s.SessionID != l.ID), t != nil && t.End > 0:
		return
	case !begins && s.State != proto.TurnParked && s.State != proto.TurnResumed && !proto.TurnEnded(s.State):
		return
	case t == nil:
		t = &Turn{
			ID: s.Turn, By: s.By, Message: s.Message, RequestID: s.RequestID, Lifetime: s.Lifetime, Attached: s.Attached, Command: s.Command,
			Say: s.Say, Job: s.Job, Text: title(s.Message), First: start, Started: s.TS,
		}
		l.byID[s.Turn] = t
		l.Turns = append(l.Turns, t)
		l.withdraw(s.Say)
		l.jobEnded(s.Job)
	}
	c.turn, c.log = t, &s
	if len(s.Request) > 0 {
		t.Request, t.Root = bytes.Clone(s.Request), rootOf(s.Request)
		t.Parent = parentOf(s.Request)
		if !t.Command {
			l.Request = t.Request
		}
	}
	if proto.TurnEnded(s.State) && l.active == t && (s.State == proto.TurnError || s.State == proto.TurnInterrupted) {
		c.returned = l.toReturn(t)
	}
	t.State, t.Reason = s.State, s.Reason
	t.Until, t.Approval, t.Pending, t.Discarded = s.Until, s.Approval, s.Pending, ""
	if s.TS != "" {
		t.Updated = s.TS
	}
	switch s.State {
	case proto.TurnQueued:
		t.Start, t.Begun = start, l.Next
	case proto.TurnRunning:
		l.active, t.Start, l.failed = t, start, proto.Error{}
	case proto.TurnParked:
		l.active, t.Parked, t.Discarded = t, l.Next, s.Discarded
		if s.Reason == proto.ParkedLimit || s.Reason == proto.ParkedBudget {
			t.Tries++
		}
	case proto.TurnResumed:
		l.active = t
		if s.Attempt > 0 { // absent after a planned stop
			t.Attempts = s.Attempt
		}
	default:
		if l.active == t {
			l.active = nil
		}
		c.answer, c.failed = t.text, l.failed
		t.End, t.To, t.ToTurn = l.Next, s.To, s.ToTurn
		t.Request, t.Message, t.text = nil, "", nil
		if s.State != proto.TurnContinued { // those go on with it
			t.Says = nil
		}
		l.calls = slices.DeleteFunc(l.calls, func(call openCall) bool { return call.turn == t.ID })
	}
}

// setMode puts another mode, with its level of confinement, into the request of a turn.
func (l *Log) setMode(t *Turn, m proto.LogMode) {
	request := []byte{'{'}
	add := func(key string, value []byte) {
		if len(request) > 1 {
			request = append(request, ',')
		}
		request = append(append(wire.AppendString(request, key), ':'), value...)
	}
	for key, value := range wire.Members(t.Request) {
		if string(key) != "mode" && string(key) != "sandbox" {
			add(string(key), value)
		}
	}
	add("mode", wire.AppendString(nil, m.Mode))
	if m.Sandbox != "" {
		add("sandbox", wire.AppendString(nil, string(m.Sandbox)))
	}
	t.Request = append(request, '}')
	if !t.Command {
		l.Request = t.Request
	}
}

// toReturn returns the messages that go back to the user when t fails: its undelivered
// ones, and the turns that turn_say has queued.
func (l *Log) toReturn(t *Turn) (list []returned) {
	for _, s := range t.Says {
		list = append(list, returned{s.ID, s.Text})
	}
	for _, q := range l.Turns {
		if q.State == proto.TurnQueued && q.Say != "" {
			list = append(list, returned{q.Say, q.Message})
		}
	}
	return list
}

// message applies a message of the user or the assistant.
func (l *Log) message(c *change, start int64) {
	if !c.isMessage() {
		return
	}
	t := c.turn
	if !c.fromUser() {
		if !isTrue(c.partial) {
			t.progress(&c.event)
		}
		if t != nil && t.End == 0 {
			t.text = append(t.text[:0], c.text...)
		}
		return
	}
	l.user, l.asked = start, l.byID[str(c.turnID)]
	say := str(c.say)
	if t == nil {
		return
	}
	if t.Begun == 0 {
		t.Begun = l.Next
	}
	switch str(c.via) {
	case proto.ViaSchema:
		t.Repairs++
	case proto.ViaStop:
		t.Stops++
	}
	c.by, t.text = t.By, t.text[:0]
	if i := slices.IndexFunc(t.Says, func(s Say) bool { return s.ID == say }); i >= 0 {
		c.by = t.Says[i].By
		t.Says = slices.Delete(t.Says, i, i+1)
	} else if t.Text == "" {
		t.Text = title(str(c.text))
	}
}

// settle removes the last call with that id and returns it.
func (l *Log) settle(id string) openCall {
	for i, call := range slices.Backward(l.calls) {
		if call.ID == id {
			l.calls = slices.Delete(l.calls, i, i+1)
			return call
		}
	}
	return openCall{}
}

// Tools whose results name a job.
const (
	bashTool = "bash"
	jobTool  = "job"
)

// setJob updates Jobs for the result of a call.
func (l *Log) setJob(call openCall, output []byte) {
	starts := call.Name == bashTool && bytes.Contains(call.Arguments(), []byte(`"wake"`))
	if !starts && (call.Name != jobTool || len(l.Jobs) == 0) {
		return
	}
	var input struct {
		Wake bool `json:"wake,omitzero"`
	}
	var result struct {
		Data struct {
			Job     string `json:"job,omitzero"`
			Running bool   `json:"running,omitzero"`
		} `json:"data,omitzero"`
	}
	if wire.DecodeReply(output, &result) != nil || result.Data.Job == "" {
		return
	}
	switch job := result.Data.Job; {
	case !result.Data.Running:
		l.jobEnded(job)
	case starts && wire.DecodeReply(call.Arguments(), &input) == nil && input.Wake && !slices.Contains(l.Jobs, job):
		l.Jobs = append(l.Jobs, job)
	}
}

// jobEnded removes a job whose end the log has.
func (l *Log) jobEnded(job string) {
	l.Jobs = slices.DeleteFunc(l.Jobs, func(id string) bool { return id == job })
}

// say applies a say event. A message of mode queue is a turn: see Turn.Say.
func (l *Log) say(c *change, raw []byte) {
	var s proto.LogSay
	if wire.DecodeReply(raw, &s) != nil || s.Say == "" {
		return
	}
	if s.Withdrawn {
		l.withdraw(s.Say)
		return
	}
	l.jobEnded(s.Job)
	said := Say{ID: s.Say, Mode: s.Mode, Text: s.Text, Context: s.Context, RequestID: s.RequestID, By: s.By}
	t := c.turn
	if t != nil {
		said.Turn = t.ID
		if t.End == 0 && s.Mode != proto.ViaQueue {
			t.Says = append(t.Says, said)
		}
	}
	said.Text, said.Context = "", ""
	if l.says = append(l.says, said); len(l.says) > saysMax {
		l.says = slices.Delete(l.says, 0, 1)
	}
}

// withdraw removes an undelivered message.
func (l *Log) withdraw(say string) {
	for _, t := range l.Turns {
		if t.Says != nil {
			t.Says = slices.DeleteFunc(t.Says, func(s Say) bool { return s.ID == say })
		}
	}
}

// progress counts a stored step: the next attempt to resume is the first one again.
func (t *Turn) progress(e *event) {
	if t == nil || t.End > 0 {
		return
	}
	t.Attempts = 0
	t.Step = max(t.Step, int(number(e.step)))
}

// use adds what an inference consumed.
func (t *Turn) use(e *event) {
	if t == nil || t.End > 0 {
		return
	}
	in, out := number(e.in), number(e.out)
	t.Usage.InputTokens += in
	t.Usage.OutputTokens += out
	t.Usage.CacheReadTokens += number(e.cacheRead)
	t.Usage.CacheWriteTokens += number(e.cacheWrite)
	t.Usage.ReasoningTokens += number(e.reasoning)
	t.Tokens, t.Window, t.Results = in+out, number(e.window), 0
	if cost, err := strconv.ParseFloat(string(e.cost), 64); err == nil && !math.IsNaN(cost) && !math.IsInf(cost, 0) {
		if t.Usage.CostUSD == nil {
			t.Usage.CostUSD = new(float64)
		}
		*t.Usage.CostUSD += cost
	}
	t.provider, t.model = str(e.provider), str(e.model)
}

// delegate counts a call that starts a sub-agent.
func (t *Turn) delegate(call proto.OpenCall) {
	if t == nil || t.End > 0 || len(t.Agents) == AgentsMax {
		return
	}
	if _, ok := AgentOf(call); ok {
		t.Agents = append(t.Agents, AgentCall{call.Step, call.ID})
	}
}

// title is the start of a text on one line.
func title(s string) string { return text.Clip(text.OneLine(text.Head(s, 64*textMax)), textMax) }

// rootOf returns the root of a request.
func rootOf(request proto.Raw) (root string) {
	for key, value := range wire.Members(request) {
		if string(key) == "root" {
			root = str(value)
		}
	}
	return root
}

// parentOf returns the call that started the turn of a request as a sub-agent.
func parentOf(request proto.Raw) *proto.LogParent {
	if !bytes.Contains(request, []byte(`"parent"`)) { // most requests
		return nil
	}
	var q struct {
		Parent *proto.LogParent `json:"parent"`
	}
	if wire.DecodeReply(request, &q) != nil {
		return nil
	}
	return q.Parent
}
