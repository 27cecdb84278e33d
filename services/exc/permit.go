package exc

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"zino/pkg/gate"
	"zino/pkg/realpath"
	"zino/proto"
	"zino/services/exc/files"
)

// ticket is what decides about a call or execute: its turn, and where and how it runs.
type ticket struct {
	turn  gate.Turn
	root  string // as requested
	level proto.Level
}

// admit checks the token of a call, and keeps what decides about the call. The error has
// the code denied.
func (s *Service) admit(token string, c *turnCall, root string, level proto.Level, network *bool) error {
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
	c.ticket = ticket{turn, root, level}
	level, allowed, err := s.host.settle(level, network)
	if err != nil {
		return nil // the call itself fails for that reason
	}
	c.ticket.level = level
	if turn.Signed() {
		of, ofAllowed, err := s.host.settle(turn.Sandbox, turn.Network)
		if err == nil {
			err = gate.Within(level, allowed, of, ofAllowed)
		}
		return err
	}
	return nil
}

// permit returns why a call of a tool is denied, as an error for the model: by the policy,
// or by the mode of its turn. command is that of bash, path that of a file's tool.
func (s *Service) permit(ctx context.Context, c *turnCall, tool, command, path string) error {
	if s.guard == nil {
		return nil
	}
	t := c.ticket
	call := gate.Call{Tool: tool, Command: command, Path: path, Sandbox: t.level}
	why, err := await(ctx, s.limit, func(context.Context) (string, error) { // the root may be on a file system that hangs
		call.Root = policyRoot(t.root)
		return s.guard.Permit(t.turn, call), nil
	})
	if err != nil || why == "" {
		return err
	}
	if t.turn.Mode == gate.Plan && path == "" && t.level != proto.LevelReadOnly {
		if problem := s.levelProblem(ctx, proto.LevelReadOnly); problem != nil {
			why += fmt.Sprintf(" (commands would run at sandbox level read-only, which is not available on this host: %v)", problem)
		}
	}
	return &files.Error{Code: files.Denied, Message: why}
}

// policyRoot returns the root of a call without symbolic links.
func policyRoot(root string) string {
	if root == "" {
		if root, _ = os.Getwd(); root == "/" {
			return "" // a service that was started nowhere in particular
		}
	}
	real, _, err := realpath.Follow(root)
	if err != nil || !filepath.IsAbs(root) {
		return ""
	}
	return real
}

// permitCall is permit for a call.
func (s *Service) permitCall(ctx context.Context, c *turnCall, req proto.Call) error {
	switch req.Tool {
	case toolBash:
		in, err := bashInputOf(req.Input)
		if err != nil {
			return err
		}
		return s.permit(ctx, c, req.Tool, in.Command, "")
	case files.Read, files.Write, files.Edit:
		path, err := files.PathOf(req.Input)
		if err != nil || path == "" {
			return err // of "" the tool says what is wrong
		}
		return s.permit(ctx, c, req.Tool, "", path)
	}
	return nil // it is not carried out
}

// shells are the executors whose code is a command of bash as well.
var shells = []string{"bash", "dash", "sh"}

// permitCode is permit for code of an executor, whose program is command.
func (s *Service) permitCode(ctx context.Context, c *turnCall, executor, command, code string) error {
	err := s.permit(ctx, c, "execute_"+executor, "", "")
	if err == nil && slices.Contains(shells, filepath.Base(cmp.Or(command, executor))) {
		err = s.permit(ctx, c, toolBash, code, "")
	}
	return err
}

// stopJob stops a job, for a model as far as its turn permits.
func (s *Service) stopJob(ctx context.Context, req proto.JobID) (proto.JobInfo, error) {
	if req.Token != "" && s.guard != nil {
		turn, err := s.guard.Turn(req.Token)
		if err == nil {
			err = turn.Fits(req.SessionID, turn.Turn, turn.Root)
		}
		if err != nil {
			return proto.JobInfo{}, err
		}
		level, _, err := s.host.settle(turn.Sandbox, turn.Network)
		if err != nil {
			return proto.JobInfo{}, err
		}
		if why := s.guard.Permit(turn, gate.Call{Tool: "job", Action: "stop", Sandbox: level}); why != "" {
			return proto.JobInfo{}, proto.Errorf(proto.CodeDenied, "%s", why)
		}
	}
	return s.jobs.Stop(ctx, req)
}
