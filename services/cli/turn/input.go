package turn

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/render"
)

// lockedTurns is a renderer for packets of a turn and answers to commands, which come
// from different goroutines. What comes after the end is dropped.
type lockedTurns struct {
	render.Turns
	mu    sync.Mutex
	ended bool
}

func (l *lockedTurns) Event(typ string, payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil
	}
	return l.Turns.Event(typ, payload)
}

func (l *lockedTurns) Turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = false
	l.Turns.Turn()
}

func (l *lockedTurns) Ask(text, prompt string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.Turns.Ask(text, prompt)
	}
}

func (l *lockedTurns) End(done render.Done, err error) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return l.Turns.End(done, err)
}

// inputLineMax is the longest line of Input in bytes.
const inputLineMax = 1 << 20

// Input is a line of `zino exec --input json`: a command for the turn.
type Input struct {
	// Type is "say", "cancel" or "approve".
	Type string `json:"type"`
	// Text is the message, with say.
	Text string `json:"text,omitzero"`
	// Mode is "steer" or "queue", with say; absent: steer.
	Mode string `json:"mode,omitzero"`
	// Say is a message that was not delivered yet: an empty text withdraws it.
	Say string `json:"say,omitzero"`
	// ID is a request to allow a call, with approve.
	ID string `json:"id,omitzero"`
	// Digest is that of the request; absent: that of the packet approval_requested.
	Digest string `json:"digest,omitzero"`
	// Answer is "once", "session", "always" or "deny".
	Answer string `json:"answer,omitzero"`
	// Note is a reason for the model, with deny.
	Note string `json:"note,omitzero"`
	// Pattern is what session and always allow; absent: the proposed one.
	Pattern string `json:"pattern,omitzero"`
}

// parseInput reads one line of input.
func parseInput(line []byte) (in Input, err error) {
	if err := wire.DecodeReply(line, &in); err != nil {
		return in, err
	}
	if in.Type != "say" && in.Type != "cancel" && in.Type != "approve" {
		return in, fmt.Errorf("unknown type %q (want say, cancel or approve)", in.Type)
	}
	return in, nil
}

// commands carries out the lines of input and renders the answers. A line that fails is
// a notice: error is the packet that ends a turn.
func (f *follower) commands(input io.Reader) {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, inputLineMax)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		in, err := parseInput(line)
		if err == nil {
			err = f.command(in)
		}
		if err != nil {
			f.notice(proto.NoticeWarning, "standard input: "+err.Error())
		}
	}
	if err := lines.Err(); err != nil {
		f.notice(proto.NoticeWarning, "standard input is not read any more: "+err.Error())
	}
}

func (f *follower) command(in Input) error {
	f.busy.Lock()
	defer f.busy.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), leaveLimit)
	defer stop()
	switch in.Type {
	case "cancel":
		canceled, err := rpc.Call(ctx, f.d.Client, proto.DaemonTurnCancel, proto.TurnCancel{SessionID: f.session, Turn: f.turn})
		return f.answer(err, proto.DaemonTurnCancel.Reply, canceled)
	case "approve":
		digest := in.Digest
		if printed, ok := f.digests.Load(in.ID); ok && digest == "" {
			digest = printed.(string)
		}
		if digest == "" {
			return fmt.Errorf("no request %q was printed: give its digest", in.ID)
		}
		answered, err := rpc.Call(ctx, f.d.Client, proto.DaemonApprove, proto.Approve{ID: in.ID, Digest: digest, Answer: in.Answer, Note: in.Note, Pattern: in.Pattern})
		return f.answer(err, proto.DaemonApprove.Reply, answered)
	}
	said, err := rpc.Call(ctx, f.d.Client, proto.DaemonTurnSay, proto.TurnSay{SessionID: f.session, Text: in.Text, Mode: in.Mode, Say: in.Say})
	return f.answer(err, proto.DaemonTurnSay.Reply, said)
}

// answer renders the answer to a command. An error of the renderer ends the turn with
// the next packet of the daemon.
func (f *follower) answer(err error, typ string, v any) error {
	if err != nil {
		return err
	}
	packet, err := wire.AppendObject(nil, typ, v)
	if err == nil {
		f.turns.Event(typ, packet)
	}
	return err
}

// notice renders a remark of this run.
func (f *follower) notice(kind, text string) error {
	packet, err := wire.AppendObject(nil, proto.TypeNotice, proto.Notice{Kind: kind, Text: text})
	if err != nil {
		return err
	}
	return f.render(proto.TypeNotice, packet)
}
