package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// keptMax is how many bytes of a command's output its message has: half of them are the
// head, half the tail.
const keptMax = 16 << 10

// bashTool is the tool of exc that runs commands.
const bashTool = "bash"

// runCommand runs a command of the user as a turn that asks no model. It has no key of
// exc: the command ends with the connection, also if this process is killed.
func (s *Service) runCommand(ctx context.Context, req proto.SessionCommand, out *rpc.Out) (proto.CommandDone, error) {
	if strings.TrimSpace(req.Command) == "" {
		return proto.CommandDone{}, proto.Errorf(proto.CodeInvalid, "Nothing to run.")
	}
	chat := proto.Chat{
		Message: req.Command, SessionID: req.SessionID, Root: req.Root, Sandbox: req.Sandbox, Network: req.Network,
		Env: req.Env, Cwd: req.Cwd, Umask: req.Umask, Recall: req.Recall,
	}
	if err := checkChat(chat); err != nil {
		return proto.CommandDone{}, err
	}
	chat = withoutForeignEnv(chat, rpc.PeerUID(ctx))
	if chat.SessionID == "" {
		chat.SessionID = proto.NewSessionID()
	}
	rpc.Note(ctx, slog.String("session", chat.SessionID), slog.Int("command_bytes", len(req.Command)))
	sess, err := s.enterKnown(ctx, chat.SessionID)
	if err != nil {
		return proto.CommandDone{}, err
	}
	defer sess.leave()
	t, err := sess.startCommand(ctx, chat)
	if err != nil {
		return proto.CommandDone{}, err
	}
	defer t.finish()
	rpc.Note(ctx, slog.String("turn", t.id))
	if e := t.runCommand(req.Command, req.Keep, out); e != nil {
		return proto.CommandDone{}, e
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return proto.CommandDone{SessionID: sess.id, Turn: t.id, Next: t.next}, nil
}

// startCommand adds the turn of a command to the session, and returns it when the session
// is locked. Nothing waits for the end of another turn: that is the error busy.
func (sess *session) startCommand(ctx context.Context, req proto.Chat) (*turn, error) {
	err := sess.loadIdle()
	if err != nil {
		return nil, err
	}
	t := sess.newTurn(ctx, req)
	t.message = "!" + req.Message // for people
	t.attached, t.command = true, true
	launched := make(chan struct{})
	t.launch = func() { close(launched) }
	sess.mu.Lock()
	if err = sess.room(true); err == nil {
		sess.turns = append(sess.turns, t)
		sess.advance()
	}
	sess.mu.Unlock()
	if err != nil {
		t.cancel()
		sess.rest()
		return nil, err
	}
	select {
	case <-launched:
		return t, nil
	case <-t.refused:
		err = t.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.finish()
	return nil, err
}

// loadIdle locks the session. Its error is busy if a turn is open, here or in another
// constellation. A session that was loaded and gets no turn must be given to rest.
func (sess *session) loadIdle() error {
	if err := sess.busy(); err != nil {
		return err
	}
	if err := sess.load(); err != nil {
		return sess.elsewhere(err)
	}
	if err := sess.busy(); err != nil {
		sess.rest()
		return err
	}
	return nil
}

// runCommand stores the start of the turn, runs the command in exc, and stores the end.
func (t *turn) runCommand(command string, keep bool, out *rpc.Out) *proto.Error {
	r := &relay{out: out, events: true, turn: t, record: record{turnID: t.id, command: true}}
	r.event(proto.TypeTurn, t.logTurn(proto.TurnRunning))
	err := r.store(t.header(), func() {
		t.state, t.relay = proto.TurnRunning, r
		t.ending = true // no model reads a message: it becomes a turn of its own
		t.isStored()
	})
	if err != nil {
		return turnError(t.ctx, err)
	}
	call := openCall{id: strings.ToLower(rand.Text()[:9]), name: bashTool, subject: command}
	r.calls = []openCall{call}
	started := time.Now()
	answer, err := t.callBash(r, call.id, command)
	if err == nil {
		err = t.ctx.Err() // the result of a command that was stopped is the one below
	}
	finished := proto.ToolFinished{ID: call.id, Name: bashTool, Result: answer.Result, DurationMS: time.Since(started).Milliseconds(), Confinement: answer.Confinement}
	var e *proto.Error
	if err != nil {
		e = turnError(t.ctx, err)
		t.stopCommands(t.ctx, t.session.id, t.id)
		finished.Result = proto.Raw(interruptedResult)
		if len(r.running) > 0 {
			finished.Result = r.running[0].envelope()
		}
		if !interrupted(e) {
			t.endReason = text.OneLine(e.Message)
		}
	}
	result := commandResult(finished.Result)
	if finished.OK = result.OK; e == nil || interrupted(e) {
		if err := r.finishCommand(finished, result.Masked); err != nil {
			t.Service.log.Debug("the caller has hung up during the command", "error", err, "trace", rpc.Trace(t.ctx))
		}
	}
	if keep && (e == nil || interrupted(e)) {
		r.event(proto.TypeMessage, proto.LogMessage{Role: proto.RoleUser, Text: result.message(command), Turn: t.id, TS: timestamp()})
	}
	if e != nil {
		err = r.storeFailure(e)
	} else {
		r.event(proto.TypeTurn, proto.LogTurn{Turn: t.id, SessionID: t.session.id, State: proto.TurnDone, TS: timestamp()})
		err = r.store(nil, func() { t.end(proto.TurnDone, "") })
	}
	if err != nil {
		t.Service.log.Error("the end of a command could not be stored", "session", t.session.id, "turn", t.id, "error", err, "trace", rpc.Trace(t.ctx))
		failed := turnError(t.ctx, err)
		t.abandon(failed)
		if e == nil {
			return failed
		}
	}
	return e
}

// finishCommand sends the result of a command.
func (r *relay) finishCommand(finished proto.ToolFinished, masked int) error {
	if masked > 0 {
		if err := r.emit(proto.TypeNotice, proto.MaskedNotice(masked)); err != nil {
			return err
		}
	}
	return r.emit(proto.TypeToolFinished, finished)
}

// callBash runs the command in exc. Its output is sent as it comes.
func (t *turn) callBash(r *relay, id, command string) (answer proto.CallResult, err error) {
	input := append(wire.AppendString(proto.Raw(`{"command":`), command), '}')
	requested, err := wire.AppendObject(nil, proto.TypeToolRequested, proto.ToolRequested{ID: id, Name: bashTool, Input: input})
	if err != nil {
		return answer, err
	}
	t.broadcast(requested) // the caller knows what it asked for
	if err := r.emit(proto.TypeToolStarted, proto.ToolStarted{ID: id, Name: bashTool}); err != nil {
		return answer, err
	}
	req := t.req
	token, err := t.token(req, t.id, t.uid)
	if err != nil {
		return answer, err
	}
	t.refreshHints(t.ctx)
	call := proto.Call{
		Tool: bashTool, Input: input, Root: req.Root, Sandbox: req.Sandbox, Network: req.Network, Env: req.Env, Cwd: req.Cwd, Umask: req.Umask,
		OutputBytes: t.cfg.Agr.ToolOutputBytes, Events: true, SessionID: t.session.id, Turn: t.id, Token: token, Mask: t.masking(),
	}
	answer, err = rpc.CallEvents(t.ctx, t.services["exc"], proto.ExcCall, call, func(typ string, payload []byte) error {
		switch typ {
		case proto.TypeToolOutput:
			var output proto.ToolOutput
			if err := wire.DecodeReply(payload, &output); err != nil {
				return err
			}
			output.ID = id
			return r.emit(typ, output)
		case proto.TypeNotice:
			var notice proto.Notice
			if err := wire.DecodeReply(payload, &notice); err != nil {
				return err
			}
			return r.emit(typ, notice)
		}
		return nil
	})
	if err == nil && !wire.Valid(answer.Result) {
		err = errors.New("exc answered with something that is not a result")
	}
	return answer, err
}

// emit sends a packet that is not stored to the followers and, with the turn, to the
// caller.
func (r *relay) emit(typ string, v any) error {
	payload, err := wire.AppendObject(nil, typ, v)
	if err != nil {
		return err
	}
	if err := r.watch(typ, payload); err != nil {
		return err
	}
	payload = r.turn.mark(payload)
	r.turn.mu.Lock()
	r.turn.send(packet{payload: payload, turn: r.turn.id})
	r.turn.mu.Unlock()
	if err := r.pass(payload); err != nil {
		return err
	}
	return r.Flush()
}

// ranCommand is the result of a command.
type ranCommand struct {
	OK     bool `json:"ok"`
	Masked int  `json:"masked,omitzero"`
	Data   struct {
		Stdout      string `json:"stdout,omitzero"`
		Stderr      string `json:"stderr,omitzero"`
		ExitCode    int    `json:"exit_code,omitzero"`
		TimedOut    bool   `json:"timed_out,omitzero"`
		Interrupted bool   `json:"interrupted,omitzero"`
		Job         string `json:"job,omitzero"`
		Running     bool   `json:"running,omitzero"`
	} `json:"data,omitzero"`
	Error proto.ToolError `json:"error,omitzero"`
}

func commandResult(envelope proto.Raw) (r ranCommand) {
	if err := wire.DecodeReply(envelope, &r); err != nil {
		return ranCommand{Error: proto.ToolError{Message: "its result cannot be read"}}
	}
	return r
}

func (r ranCommand) wasInterrupted() bool {
	return r.Data.Interrupted || r.Error.Code == proto.ToolInterrupted
}

// message is what the model reads of a command: the command, its output in a fence, and
// how it ended.
func (r *ranCommand) message(command string) string {
	d := r.Data
	output := d.Stdout
	if output != "" && d.Stderr != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	output = text.Middle(output+d.Stderr, keptMax/2, keptMax/2, "\n[%d bytes left out]\n")
	how := fmt.Sprintf("Exit status: %d", d.ExitCode)
	switch {
	case !r.OK:
		how = "It was not run: " + r.Error.Message
		if r.wasInterrupted() {
			how = "It was interrupted."
		}
	case d.Running:
		how = "It continues as job " + d.Job + "."
	case r.wasInterrupted():
		how = "It was interrupted."
	case d.TimedOut:
		how = "It was ended by the time limit."
	case d.ExitCode < 0:
		how = fmt.Sprintf("It was ended by signal %d.", -d.ExitCode)
	}
	return "I ran: " + command + "\n\n" + text.Fenced("", output) + "\n\n" + how
}
