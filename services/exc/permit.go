package exc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"zino/pkg/audit"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/exc/files"
)

// ticket is what decides about a call or execute: its turn, the token of an approval, and
// where and how it runs.
type ticket struct {
	turn    gate.Turn
	grant   string
	ask     string // why a hook demands that a person is asked
	root    string // as requested
	level   proto.Level
	network bool
	from    proto.Level // the turn's level, of a command that asks for less confinement
}

// admit checks the token of a call, and keeps what decides about the call. The error has
// the code denied.
func (s *Service) admit(token, grant string, c *turnCall, root string, level proto.Level, network *bool) error {
	if s.guard == nil {
		return nil
	}
	turn, err := s.guard.Turn(token)
	if err == nil {
		err = turn.Fits(c.session, c.turn, root)
	}
	if err != nil {
		return err
	}
	turn.Session, turn.Turn = c.session, c.turn // also without a token
	c.ticket = ticket{turn: turn, grant: grant, root: root, level: level}
	level, allowed, err := s.host.settle(level, network)
	if err != nil {
		return nil // the call itself fails for that reason
	}
	c.ticket.level, c.ticket.network = level, allowed
	if turn.Signed() {
		of, ofAllowed, err := s.host.settle(turn.Sandbox, turn.Network)
		if err == nil {
			err = gate.Within(level, allowed, of, ofAllowed)
		}
		return err
	}
	return nil
}

// permit decides about a call by the policy, the mode of its turn and the token of its
// approval. If it is denied, the error is one for the model; if a person must allow it, the
// error has the code approval.
func (s *Service) permit(ctx context.Context, c *turnCall, r gate.Request) error {
	if s.guard == nil {
		return nil
	}
	t := c.ticket
	r.Turn, r.Network, r.From, r.Key, r.Grant, r.Ask = t.turn, t.network, t.from, c.key, t.grant, t.ask
	r.Call.Sandbox = t.level
	_, err := await(ctx, s.limit, func(context.Context) (any, error) { // the root may be on a file system that hangs
		r.Root, r.Dir = gate.Root(t.root), gate.Root(workDir(t.root))
		if r.Call.Root = r.Dir; r.Dir == "/" && t.root == "" {
			r.Call.Root = "" // a service that was started nowhere in particular
		}
		return nil, s.guard.Permit(&r)
	})
	e, ok := errors.AsType[*proto.Error](err)
	if !ok || e.Code != proto.CodeDenied {
		return err
	}
	why := e.Message
	if t.turn.Mode == gate.Plan && r.Call.Path == "" && t.level != proto.LevelReadOnly {
		if problem := s.levelProblem(ctx, proto.LevelReadOnly); problem != nil {
			why += fmt.Sprintf(" (commands would run at sandbox level read-only, which is not available on this host: %v)", problem)
		}
	}
	return &files.Error{Code: files.Denied, Message: why}
}

// workDir returns the working directory of a call with that root.
func workDir(root string) string {
	if root == "" {
		root, _ = os.Getwd()
	}
	return root
}

// permitCall is permit for a call. It sets the level of a command that escalates.
func (s *Service) permitCall(ctx context.Context, c *turnCall, req *proto.Call) error {
	if s.guard == nil {
		return nil
	}
	switch req.Tool {
	case toolBash:
		in, err := bashInputOf(req.Input)
		if err != nil {
			return err
		}
		if err := s.escalate(ctx, c, req, in.Escalate); err != nil {
			return err
		}
		return s.permit(ctx, c, gate.Request{
			Call: gate.Call{Tool: req.Tool, Command: in.Command}, Input: req.Input,
			Preview: func(p *proto.ApprovalPreview) { maskCommands(c, p) },
		})
	case files.Read, files.Write, files.Edit:
		path, err := files.PathOf(req.Input)
		if err != nil || path == "" {
			return err // of "" the tool says what is wrong
		}
		err = s.permit(ctx, c, gate.Request{Call: gate.Call{Tool: req.Tool, Path: path}, Input: req.Input})
		if errors.Is(err, proto.ErrApproval) && req.Tool != files.Read {
			return s.permitChange(ctx, c, *req, path, err)
		}
		return err
	}
	return nil // it is not carried out
}

// permitChange returns the error approval of a write or edit, with its diff. A change that
// cannot be made is an error for the model instead. Of a file that the turn may not read,
// neither is returned: both tell what is in it.
func (s *Service) permitChange(ctx context.Context, c *turnCall, req proto.Call, path string, asked error) error {
	if s.permit(ctx, c, gate.Request{Call: gate.Call{Tool: files.Read, Path: path}, Input: req.Input}) != nil {
		return asked
	}
	plan, err := s.planOf(ctx, req)
	if err != nil {
		return err
	}
	return s.permitPlan(ctx, c, req, plan)
}

// planOf returns what a call of read, write or edit would do.
func (s *Service) planOf(ctx context.Context, req proto.Call) (plan files.Plan, err error) {
	planned := false
	_, err = s.onFile(ctx, req, func(_ context.Context, st start) error {
		plan, planned = *st.plan, true
		return context.Canceled
	})
	if planned {
		err = nil
	}
	return plan, err
}

// permitPlan is permit for a call of read, write or edit that is about to be carried out: a
// link on the way to the file may have been replaced since the last decision, or its content.
func (s *Service) permitPlan(ctx context.Context, c *turnCall, req proto.Call, plan files.Plan) error {
	r := gate.Request{
		Call: gate.Call{Tool: req.Tool, Path: plan.Path}, Input: req.Input,
		Preview: func(p *proto.ApprovalPreview) { p.Diff = maskText(c.mask, plan.Diff) },
	}
	if req.Tool != files.Read && s.guard != nil {
		r.Files = []string{cmp.Or(plan.Before, "absent")}
	}
	return s.permit(ctx, c, r)
}

// maskCommands masks the commands of a preview.
func maskCommands(c *turnCall, p *proto.ApprovalPreview) {
	for i := range p.Commands {
		p.Commands[i] = maskText(c.mask, p.Commands[i])
	}
}

// escalate sets the level of a command that asks for less confinement than its turn has.
func (s *Service) escalate(ctx context.Context, c *turnCall, req *proto.Call, reason string) error {
	t := &c.ticket
	if reason == "" || !t.level.Confined() {
		return nil
	}
	level, network, err := s.guard.Escalate(t.level, t.network, reason)
	if err != nil {
		return &files.Error{Code: files.Denied, Message: err.Error()}
	}
	if err := s.levelProblem(ctx, level); err != nil {
		return &refusal{level, err}
	}
	t.from = t.level
	if t.level, t.network, err = s.host.settle(level, network); err != nil {
		return err
	}
	req.Sandbox, req.Network = level, network
	return nil
}

// preview shows what a call would do.
func (s *Service) preview(ctx context.Context, req proto.Call) (p proto.ApprovalPreview, err error) {
	m, err := s.masker(req.Mask, req.Env)
	if err != nil {
		return p, err
	}
	switch req.Tool {
	case files.Write, files.Edit:
		plan, err := s.planOf(ctx, req)
		if e, ok := errors.AsType[*files.Error](asResult(err)); ok {
			return p, proto.Errorf(proto.CodeInvalid, "%s", maskText(m, e.Message))
		}
		p.Diff = maskText(m, plan.Diff)
		return p, err
	case toolBash:
		in, err := bashInputOf(req.Input)
		if err != nil {
			return p, proto.Errorf(proto.CodeInvalid, "%v", err)
		}
		p.Commands = gate.Commands(in.Command)
		maskCommands(&turnCall{mask: m}, &p)
	}
	return p, nil
}

// shells are the executors whose code is a command of bash as well.
var shells = []string{"bash", "dash", "sh"}

// permitCode is permit for code of an executor, whose program is command.
func (s *Service) permitCode(ctx context.Context, c *turnCall, executor, command, code string) error {
	r := gate.Request{
		Call: gate.Call{Tool: "execute_" + executor}, Input: append(wire.AppendString([]byte(`{"code":`), code), '}'),
		Preview: func(p *proto.ApprovalPreview) { maskCommands(c, p) },
	}
	if slices.Contains(shells, filepath.Base(cmp.Or(command, executor))) {
		r.Shell = code
	}
	return s.permit(ctx, c, r)
}

// stopJob stops a job, for a model as far as its turn permits.
func (s *Service) stopJob(ctx context.Context, req proto.JobID) (proto.JobInfo, error) {
	if s.guard != nil && s.guard.ByModel(req.Token, rpc.PeerUID(ctx)) {
		turn, err := s.guard.Turn(req.Token)
		if err == nil {
			err = turn.Fits(req.SessionID, turn.Turn, turn.Root)
		}
		if err != nil {
			return proto.JobInfo{}, err
		}
		level, network, err := s.host.settle(turn.Sandbox, turn.Network)
		if err != nil {
			return proto.JobInfo{}, err
		}
		err = s.guard.Permit(&gate.Request{
			Turn: turn, Call: gate.Call{Tool: "job", Action: "stop", Sandbox: level}, Network: network, Root: gate.Root(turn.Root), Dir: gate.Root(turn.Root),
			Input: append(wire.AppendString([]byte(`{"action":"stop","job":`), req.Job), '}'), Key: req.Key, Grant: req.Grant, Once: true,
		})
		if err != nil {
			return proto.JobInfo{}, err
		}
	}
	s.audit.Record(proto.AuditJob, audit.Event{Session: req.SessionID, Data: stopped{req.Job, rpc.PeerUID(ctx)}})
	return s.jobs.Stop(ctx, req)
}
