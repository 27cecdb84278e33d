package acp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sourcegraph/jsonrpc2"

	"zino/pkg/approval"
	"zino/pkg/form"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/render"
)

const (
	outputEvery = 100 * time.Millisecond // between two updates with the output of a call
	outputMax   = 64 << 10               // bytes of output of a call in an update
)

// updates renders a turn, or a stored session, as updates for the client.
type updates struct {
	*session
	ctx       context.Context
	replaying bool // a stored session: nothing is asked

	mu      sync.Mutex
	n       int  // inferences so far
	spoke   bool // the inference has sent text
	turn    string
	calls   map[string]*toolCall // by the id in the turn
	asking  sync.WaitGroup
	limited bool // the turn has reached its limit of inferences

	over bool // End was called
	done render.Done
	err  error
}

// toolCall is a call that was requested.
type toolCall struct {
	id     string // for the client
	name   string
	path   string // of the file that it reads or changes
	output []byte // the last of it
	sent   time.Time
	timer  *time.Timer // sends the output later; nil: it is sent
}

// send sends an update. An error means that the client has gone.
func (u *updates) send(update object) {
	_ = u.conn.Notify(context.Background(), "session/update", object{"sessionId": u.session.id, "update": update})
}

// Begin implements render.Turns.
func (u *updates) Begin(string) error { return nil }

// Turn implements render.Turns.
func (u *updates) Turn() {}

// Status implements render.Turns.
func (u *updates) Status(string) {}

// Ask implements render.Turns.
func (u *updates) Ask(string, string) {}

// Typed implements render.Turns.
func (u *updates) Typed() {}

// End implements render.Turns.
func (u *updates) End(done render.Done, err error) (reported bool, writing error) {
	u.over, u.done, u.err = true, done, err
	return true, nil
}

// end ends what runs beside the turn.
func (u *updates) end() {
	u.mu.Lock()
	for _, c := range u.calls {
		if c.timer != nil {
			c.timer.Stop()
		}
	}
	u.mu.Unlock()
	u.asking.Wait()
}

// Event implements render.Turns.
func (u *updates) Event(typ string, payload []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch typ {
	case proto.TypeAssistantDelta:
		return decode(payload, func(e proto.AssistantDelta) { u.text(e.Text) })
	case proto.TypeAssistantFinal:
		return decode(payload, func(e proto.AssistantFinal) {
			if !u.spoke {
				u.text(e.Text)
			}
			u.next()
		})
	case proto.TypeRetracted:
		if u.spoke && u.version == 2 {
			u.send(object{"sessionUpdate": "agent_message", "messageId": u.messageID("m"), "content": []object{}})
		}
		u.next()
	case proto.TypeReasoning:
		return decode(payload, func(e proto.Reasoning) {
			u.send(object{"sessionUpdate": "agent_thought_chunk", "messageId": u.messageID("t"), "content": textBlock(e.Text)})
		})
	case proto.TypeToolRequested:
		var place struct {
			Turn string `json:"turn,omitzero"`
		}
		if err := wire.DecodeReply(payload, &place); err != nil {
			return err
		}
		return decode(payload, func(e proto.ToolRequested) { u.requested(place.Turn, e) })
	case proto.TypeToolStarted:
		return decode(payload, func(e proto.ToolStarted) {
			u.change(e.ID, object{"status": "in_progress"})
		})
	case proto.TypeToolOutput:
		return decode(payload, u.output)
	case proto.TypeToolFinished:
		return decode(payload, u.finished)
	case proto.TypeUsage:
		return decode(payload, u.used)
	case proto.TypeNotice:
		return decode(payload, u.notice)
	case proto.TypeUserMessage:
		return decode(payload, func(e proto.UserMessage) { u.userMessage(e.Typed(), e.Attachments) })
	case proto.TypeTodo:
		return decode(payload, u.todo)
	case proto.TypeApprovalRequested:
		a := &proto.Approval{}
		if err := wire.DecodeReply(bytes.Clone(payload), a); err != nil {
			return err
		}
		if !u.asked[a.ID] && a.State == proto.ApprovalPending {
			u.asked[a.ID] = true
			u.asking.Go(func() { u.approve(a) })
		}
	case proto.TypeInputRequested:
		var in proto.InputRequested
		if err := wire.DecodeReply(bytes.Clone(payload), &in); err != nil {
			return err
		}
		if !u.asked[in.ID] {
			u.asked[in.ID] = true
			u.asking.Go(func() { u.input(in) })
		}
	case proto.TypeInputClosed:
		return decode(payload, func(e proto.InputClosed) { u.agent.withdraw(e.ID) })
	case proto.TypeTitle:
		return decode(payload, func(e proto.LogTitle) { u.send(object{"sessionUpdate": "session_info_update", "title": e.Text}) })
	case proto.TypeFileRequested:
		return decode(payload, func(e proto.FileRequested) { u.asking.Go(func() { u.sendFile(e) }) })
	case proto.TypeApprovalClosed:
		return decode(payload, func(e proto.ApprovalClosed) { u.agent.withdraw(e.Approval) })
	}
	return nil
}

// decode decodes a packet and calls do with it.
func decode[E any](payload []byte, do func(E)) error {
	var e E
	if err := wire.DecodeReply(payload, &e); err != nil {
		return fmt.Errorf("the daemon sent something that is not an event: %w", err)
	}
	do(e)
	return nil
}

// stored renders an event of a session's log.
func (u *updates) stored(event []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	typ, err := wire.ReplyType(event)
	if err != nil {
		return nil // of a file that was edited
	}
	switch typ {
	case proto.TypeMessage:
		return decode(event, func(e proto.LogMessage) {
			if e.Role == proto.RoleUser {
				u.userMessage(e.Typed(), e.Attachments)
				return
			}
			u.text(e.Text)
			u.next()
		})
	case proto.TypeToolUse:
		return decode(event, func(e proto.LogToolUse) {
			u.requested(e.Turn, proto.ToolRequested{ID: e.ID, Name: e.Name, Input: e.Input})
		})
	case proto.TypeToolResult:
		return decode(event, func(e proto.LogToolResult) {
			u.finished(proto.ToolFinished{ID: e.ToolUseID, Name: e.Name, OK: e.OK, Result: e.Output, Diff: e.Diff, Attachments: e.Attachments})
		})
	}
	return nil
}

// messageID identifies the message, or the thought, of the present inference.
func (u *updates) messageID(kind string) string {
	return fmt.Sprintf("%s-%s-%d", kind, firstOf(u.turn, u.session.id), u.n)
}

// next begins an inference.
func (u *updates) next() { u.n, u.spoke = u.n+1, false }

func (u *updates) text(piece string) {
	if piece == "" {
		return
	}
	u.spoke = true
	u.send(object{"sessionUpdate": "agent_message_chunk", "messageId": u.messageID("m"), "content": textBlock(piece)})
}

func (u *updates) userMessage(text string, files []proto.Attachment) {
	u.next()
	for _, block := range append([]object{textBlock(text)}, u.files(files)...) {
		u.send(object{"sessionUpdate": "user_message_chunk", "messageId": u.messageID("u"), "content": block})
	}
}

// files returns files that are stored with the session as blocks: images whole, others by
// their names.
func (u *updates) files(list []proto.Attachment) (blocks []object) {
	for _, a := range list {
		block := textBlock("[" + a.Name + "]")
		if strings.HasPrefix(a.MediaType, "image/") {
			file, err := forward(u.ctx, u.agent, "mem", proto.MemGetAttachment, proto.GetAttachment{SessionID: u.session.id, ID: a.ID})
			if err == nil {
				block = object{"type": "image", "mimeType": a.MediaType, "data": file.Data}
			}
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// kinds maps tools to the protocol's kinds.
var kinds = map[string]string{"read": "read", "write": "edit", "edit": "edit", "bash": "execute", "recall": "search", "recall_sessions": "search", "mcp_call": "fetch"}

// kindOf returns the kind of a tool.
func kindOf(name string) string {
	switch {
	case kinds[name] != "":
		return kinds[name]
	case strings.HasPrefix(name, "mcp__"), strings.HasPrefix(name, "mcp:"):
		return "fetch"
	case strings.HasPrefix(name, "execute_"):
		return "execute"
	}
	return "other"
}

// requested renders a call that the model asks for. Its id may be that of an earlier one.
func (u *updates) requested(turn string, e proto.ToolRequested) {
	u.turn = firstOf(turn, u.turn)
	id := strings.TrimPrefix(turn+"/"+e.ID, "/")
	u.ids[id]++
	if n := u.ids[id]; n > 1 {
		id = fmt.Sprintf("%s/%d", id, n)
	}
	c := &toolCall{id: id, name: e.Name}
	if path := approval.Argument(&proto.AskedCall{Tool: e.Name, Input: e.Input}); path != "" && e.Name != "bash" {
		if c.path = path; !filepath.IsAbs(path) {
			c.path = filepath.Join(u.root, path)
		}
	}
	if u.calls == nil {
		u.calls = map[string]*toolCall{}
	}
	u.calls[e.ID] = c
	update := object{"sessionUpdate": "tool_call", "toolCallId": id, "title": render.Call(e), "kind": kindOf(e.Name), "status": "pending", "rawInput": raw(e.Input)}
	if u.version == 2 {
		update["sessionUpdate"], update["name"] = "tool_call_update", e.Name
	}
	if c.path != "" {
		update["locations"] = []object{{"path": c.path}}
	}
	u.send(update)
}

// change renders a change of a call.
func (u *updates) change(id string, update object) {
	if c := u.calls[id]; c != nil {
		update["sessionUpdate"], update["toolCallId"] = "tool_call_update", c.id
		u.send(update)
	}
}

// output collects the output of a call. It is sent at most ten times a second.
func (u *updates) output(e proto.ToolOutput) {
	c := u.calls[e.ID]
	if c == nil {
		return
	}
	c.output = append(c.output, e.Text...)
	if len(c.output) > outputMax {
		c.output = tail(c.output)
	}
	if c.timer != nil {
		return
	}
	c.timer = time.AfterFunc(max(outputEvery-time.Since(c.sent), 0), func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if c.timer != nil {
			c.timer, c.sent = nil, time.Now()
			u.change(e.ID, object{"status": "in_progress", "content": []object{toolContent(string(c.output))}})
		}
	})
}

// tail returns the last outputMax bytes of a text.
func tail(b []byte) []byte {
	b = b[max(len(b)-outputMax, 0):]
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return b
}

// finished renders the result of a call.
func (u *updates) finished(e proto.ToolFinished) {
	c := u.calls[e.ID]
	if c == nil {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	update := object{"status": "completed", "rawOutput": raw(e.Result)}
	var result struct {
		OK   bool `json:"ok"`
		Data struct {
			Stdout string `json:"stdout,omitzero"`
			Stderr string `json:"stderr,omitzero"`
			Text   string `json:"text,omitzero"`
		} `json:"data,omitzero"`
		Error struct {
			Message string `json:"message,omitzero"`
		} `json:"error,omitzero"`
	}
	_ = wire.DecodeReply(e.Result, &result) // what is not an envelope has no text
	if !e.OK && !result.OK {
		update["status"] = "failed"
	}
	shown := result.Data.Stdout
	if result.Data.Stderr != "" {
		shown = strings.TrimSuffix(shown, "\n") + "\n" + result.Data.Stderr
	}
	shown = strings.TrimLeft(firstOf(shown, result.Data.Text, result.Error.Message), "\n")
	var content []object
	switch {
	case e.Diff != "" && c.path != "":
		content = append(content, u.diff(c.path, e.Diff))
	case shown != "":
		content = append(content, toolContent(string(tail([]byte(shown)))))
	}
	for _, block := range u.files(e.Attachments) {
		content = append(content, object{"type": "content", "content": block})
	}
	if content != nil {
		update["content"] = content
	}
	u.change(e.ID, update)
	delete(u.calls, e.ID)
}

// diff renders the change of a file.
func (u *updates) diff(path, diff string) object {
	if u.version == 2 {
		operation := "modify"
		if strings.HasPrefix(diff, "--- /dev/null") {
			operation = "add"
		}
		return object{"type": "diff", "changes": []object{{"operation": operation, "path": path}}, "patch": object{"format": "git_patch", "text": diff}}
	}
	if before, after, ok := sides(path, diff); ok {
		block := object{"type": "diff", "path": path, "newText": after}
		if before != nil {
			block["oldText"] = *before
		}
		return block
	}
	return toolContent("```diff\n" + strings.TrimRight(diff, "\n") + "\n```")
}

func (u *updates) used(e proto.InferenceUsage) {
	if e.CostUSD != nil {
		u.cost += *e.CostUSD
	}
	if e.ContextWindow <= 0 {
		return
	}
	update := object{"sessionUpdate": "usage_update", "used": e.InputTokens + e.OutputTokens, "size": e.ContextWindow}
	if u.cost > 0 {
		update["cost"] = object{"amount": u.cost, "currency": "USD"}
	}
	u.send(update)
}

func (u *updates) notice(e proto.Notice) {
	u.limited = u.limited || e.Kind == proto.NoticeLimit
	if !u.notices || strings.TrimSpace(e.Text) == "" {
		return
	}
	severity := "info"
	if e.Kind == proto.NoticeWarning || e.Kind == proto.NoticeLimit || e.Kind == proto.NoticeStorage {
		severity = "warning"
	}
	u.send(object{"sessionUpdate": "notice", "severity": severity, "title": e.Text})
}

// todo renders the model's list, in version 1.
func (u *updates) todo(e proto.Todo) {
	if u.version == 2 {
		return
	}
	entries := []object{}
	for _, item := range e.Items {
		status := map[string]string{proto.TodoDone: "completed", proto.TodoActive: "in_progress"}[item.Status]
		entries = append(entries, object{"content": item.Text, "priority": "medium", "status": firstOf(status, "pending")})
	}
	u.send(object{"sessionUpdate": "plan", "entries": entries})
}

// approve asks the client about a request, and sends its answer to the daemon. Without an
// answer the request stays where it is.
func (u *updates) approve(a *proto.Approval) {
	head := approval.Head(a, u.root, render.Home)
	body := approval.Body(a)
	if a.Preview.Diff != "" {
		body = strings.TrimLeft(body+"\n", "\n") + a.Preview.Diff
	}
	options := []object{{"optionId": proto.AnswerOnce, "name": "Allow once", "kind": "allow_once"}}
	if approval.Grants(a, proto.AnswerSession) {
		options = append(options, object{"optionId": proto.AnswerSession, "name": "Allow for this session", "kind": "allow_always"})
	}
	if approval.Grants(a, proto.AnswerAlways) {
		name := "Always allow"
		if pattern := approval.Pattern(&a.Call); pattern != "" {
			name += ": " + text.VisibleLine(pattern)
		}
		options = append(options, object{"optionId": proto.AnswerAlways, "name": name, "kind": "allow_always"})
	}
	options = append(options, object{"optionId": proto.AnswerDeny, "name": "Deny", "kind": "reject_once"})
	u.mu.Lock()
	id := a.CallID
	if c := u.calls[a.CallID]; c != nil {
		id = c.id
	}
	u.mu.Unlock()
	subject := object{
		"toolCallId": id, "title": text.Visible(head), "kind": kindOf(a.Call.Tool), "status": "pending", "rawInput": raw(a.Call.Input),
		"content": []object{toolContent(text.Visible(body))},
	}
	if u.version == 2 {
		u.send(object{"sessionUpdate": "state_update", "state": "requires_action"})
		defer u.send(object{"sessionUpdate": "state_update", "state": "running"})
	}
	answer := u.session.ask(u.ctx, a.ID, text.Visible(head), text.Visible(body), subject, options)
	if answer == "" {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), answerLimit)
	defer stop()
	if _, err := call(ctx, u.agent, proto.DaemonApprove, proto.Approve{ID: a.ID, Digest: a.Digest, Answer: answer}); err != nil {
		u.env.Say("Warning: the answer to %s was not stored: %v", a.ID, err)
	}
}

// answerLimit is how long the daemon may take to store an answer.
const answerLimit = 6 * time.Second

// ask asks the client, and returns the id of the option that was chosen, "" without an
// answer. The request has the id, so that it can be withdrawn.
func (sess *session) ask(ctx context.Context, id, title, description string, call object, options []object) string {
	params := object{"sessionId": sess.id, "toolCall": call, "options": options}
	if sess.version == 2 {
		params = object{"sessionId": sess.id, "title": title, "description": description, "subject": object{"type": "tool_call", "toolCall": call}, "options": options}
	}
	var answer permission
	if err := sess.conn.Call(ctx, "session/request_permission", params, &answer, jsonrpc2.PickID(jsonrpc2.ID{Str: id, IsString: true})); err != nil || answer.Outcome.Outcome != "selected" {
		if ctx.Err() != nil {
			sess.withdraw(id)
		}
		return ""
	}
	for _, o := range options {
		if o["optionId"] == answer.Outcome.OptionID {
			return answer.Outcome.OptionID
		}
	}
	return ""
}

// AnswersInputs implements turn.Inputs.
func (u *updates) AnswersInputs() bool { return u.asks.Form != nil || u.asks.URL != nil }

// input asks the client for the input that an MCP server wants, and sends its answer to the
// daemon. What the client cannot ask for is cancelled.
func (u *updates) input(in proto.InputRequested) {
	dialog, err := form.NewDialog(in)
	if err != nil {
		return // of a later version: another client may answer
	}
	params := object{"sessionId": u.session.id, "mode": "form", "message": dialog.Text(), "requestedSchema": raw(in.Schema)}
	able := u.asks.Form != nil
	if in.URL != "" {
		params = object{"sessionId": u.session.id, "mode": "url", "message": dialog.Text(), "url": in.URL, "elicitationId": in.ID}
		able = u.asks.URL != nil
	}
	answer := *dialog.Cancel()
	if able {
		var reply struct {
			Action  string    `json:"action"`
			Content proto.Raw `json:"content"`
		}
		err := u.conn.Call(u.ctx, "elicitation/create", params, &reply, jsonrpc2.PickID(jsonrpc2.ID{Str: in.ID, IsString: true}))
		if u.ctx.Err() != nil {
			u.withdraw(in.ID)
			return
		}
		if _, refused := errors.AsType[*jsonrpc2.Error](err); err != nil && !refused {
			return // the client has gone
		}
		if err == nil {
			answer.Action = reply.Action
		}
		if answer.Action == proto.InputAccept && in.URL == "" {
			if answer.Content = reply.Content; len(answer.Content) == 0 || string(answer.Content) == "null" {
				answer.Content = proto.Raw("{}") // of a form without fields
			}
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), answerLimit)
	defer stop()
	_, err = call(ctx, u.agent, proto.DaemonAnswerInput, answer)
	if errors.Is(err, proto.ErrInvalid) { // values that do not fit the form
		u.env.Say("Warning: the input for %s was not sent: %v", text.VisibleLine(in.Server), err)
		_, err = call(ctx, u.agent, proto.DaemonAnswerInput, *dialog.Cancel())
	}
	if err != nil && !errors.Is(err, proto.ErrNotFound) {
		u.env.Say("Warning: the answer to %s was not sent: %v", in.ID, err)
	}
}

// withdraw tells the client that a question needs no answer any more. It ends with the
// client's answer, or with the turn.
func (a *agent) withdraw(id string) {
	_ = a.conn.Notify(context.Background(), "$/cancel_request", object{"requestId": id})
}
