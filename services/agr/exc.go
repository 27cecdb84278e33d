package agr

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// errLost is the error of a call that may have run, and whose result exc does not send.
var errLost = errors.New("the result of the call is lost")

// key identifies a call for exc, which carries out each key once. It is empty for
// calls that change nothing and have no grant, are not exc's, or do not belong to a turn.
func (t *turn) key(c *call, grant string) string {
	if c.tool.recover != askExc && grant == "" {
		return ""
	}
	return t.fullKey(c)
}

// once has exc carry out a call. If the connection breaks or exc stops, the call may
// have begun: until excGone has passed, exc is asked for the result of a call with a
// key, and to repeat one that changes nothing. Other calls are tried once.
func (t *turn) once(c *call, grant string, try func(key string, recover bool, since string) error) error {
	key, recover, since := t.key(c, grant), c.recovers, c.since
	if key == "" {
		recover, since = false, ""
	} else if !recover {
		since = time.Now().UTC().Format(time.RFC3339Nano) // exc's record of it is younger
	}
	var until time.Time // of the tries since exc ended
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := try(key, recover, since)
		switch {
		case err == nil || t.ended() != nil || key == "" && (t.barrier == nil || c.tool.recover != repeat):
			return err
		case recover && errors.Is(err, proto.ErrNotFound): // it has never begun
			recover, until = false, time.Time{}
			continue
		case recover && errors.Is(err, proto.ErrUnavailable), errors.Is(err, rpc.ErrHungUp), errors.Is(err, proto.ErrCanceled), stops(err):
		default:
			return err
		}
		recover = key != ""
		if until.IsZero() {
			until = time.Now().Add(t.excGone)
		}
		if time.Now().After(until) {
			if key == "" {
				return err
			}
			return errLost
		}
		select {
		case <-time.After(pause):
		case <-t.ctx.Done():
			return t.ctx.Err()
		}
	}
}

// stops reports whether exc answers that it is about to end.
func stops(err error) bool {
	e, ok := errors.AsType[*proto.Error](err)
	return ok && e.Kind == proto.ErrorKindTransport
}

// callExc forwards a call of one of exc's tools to exc, and its output to the caller
// as it arrives.
func (t *turn) callExc(c *call, f fields) result {
	req := proto.Call{
		Tool: c.name, Input: c.input, Root: t.req.Root, Sandbox: t.req.Sandbox, Network: t.req.Network,
		Env: t.req.Env, Cwd: t.req.Cwd, Umask: t.req.Umask, OutputBytes: t.outputBytes, Events: t.req.Events,
		SessionID: t.req.SessionID, Turn: t.req.Turn, Mask: t.req.Mask, Ask: c.ask(), Text: t.clientText(c, f),
	}
	var answer proto.CallResult
	err := t.approved(c, func(grant string) error {
		return t.once(c, grant, func(key string, recover bool, since string) (err error) {
			req.Key, req.Recover, req.Since, req.Grant, req.Token = key, recover, since, grant, t.token()
			answer, err = rpc.CallEvents(t.ctx, t.exc, proto.ExcCall, req, func(typ string, payload []byte) error { return t.passOutput(c, typ, payload) })
			return err
		})
	})
	if err == nil && !isEnvelope(answer.Result) {
		err = errors.New("exc answered with something that is not a result")
	}
	switch {
	case errors.Is(err, errLost), err == nil && string(answer.Result) == proto.InterruptedResult:
		return interrupted()
	case err != nil:
		return failed(err)
	}
	return result{data: answer.Result, files: answer.Attachments, byExc: true, diff: answer.Diff, confined: answer.Confinement, recovered: answer.Recovered}
}

// clientText returns the text that the client of the turn has of the file that a call reads;
// nil: it has none.
func (t *turn) clientText(c *call, f fields) *string {
	path, err := f.text("path")
	if c.name != readTool || !t.req.ClientFiles || t.barrier == nil || err != nil || path == "" || t.root() == "" {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = strings.TrimSuffix(t.root(), "/") + "/" + path
	}
	t.asking.Lock()
	defer t.asking.Unlock()
	next, err := t.wait(proto.Checkpoint{Turn: t.req.Turn, Step: c.step, Point: proto.PointRead, Batch: []string{c.id}, Path: path})
	if err != nil {
		return nil // the turn has ended
	}
	return next.Text
}

// passOutput passes on output and notices of a call of exc.
func (t *turn) passOutput(c *call, typ string, payload []byte) error {
	var packet any
	var err error
	switch typ {
	case proto.TypeToolOutput:
		var output proto.ToolOutput
		err = wire.DecodeReply(payload, &output)
		output.ID = c.id
		packet = output
	case proto.TypeNotice:
		var notice proto.Notice
		err = wire.DecodeReply(payload, &notice)
		packet = notice
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("exc answered with a malformed packet: %w", err)
	}
	return t.report(t.out.Event, typ, packet)
}

// execute runs code in exc.
func (t *turn) execute(c *call, executor, code string) (r proto.Result, err error) {
	req := proto.Execute{
		Executor: executor, Code: code, Root: t.req.Root, Sandbox: t.req.Sandbox, Network: t.req.Network,
		Env: t.req.Env, Cwd: t.req.Cwd, Umask: t.req.Umask, SessionID: t.req.SessionID, Turn: t.req.Turn, Mask: t.req.Mask, Ask: c.ask(),
	}
	err = t.approved(c, func(grant string) error {
		return t.once(c, grant, func(key string, recover bool, since string) (err error) {
			req.Key, req.Recover, req.Since, req.Grant, req.Token = key, recover, since, grant, t.token()
			r, err = rpc.Call(t.ctx, t.exc, proto.ExcExecute, req)
			return err
		})
	})
	if err == nil && r.UndoNotice {
		err = t.report(t.out.Event, proto.TypeNotice, proto.Notice{Kind: proto.NoticeUndo, Text: r.Undo})
	}
	return r, err
}
