package exc

import (
	"context"
	"errors"
	"io"
	"strings"

	"zino/proto"
	"zino/services/exc/files"
)

// shell is the program that runs the commands of the tool bash.
const shell = "sh"

// bashData is what bash brings.
type bashData struct {
	Stdout    string `json:"stdout"`             // bad UTF-8 as U+FFFD
	Stderr    string `json:"stderr"`             // likewise
	ExitCode  int    `json:"exit_code"`          // the exit status, -N for death by signal N, -1 for a timeout
	TimedOut  bool   `json:"timed_out"`          // the time limit ended the command
	Truncated bool   `json:"truncated,omitzero"` // the middle of an output was left out
	// Interrupted says that the command was ended with the turn, or with exc.
	Interrupted bool `json:"interrupted,omitzero"`
}

// bash carries out a call of bash, {command}.
func (s *Service) bash(ctx context.Context, req proto.Call, shown *live) (reply, error) {
	command, err := commandOf(req.Input)
	if err != nil {
		return reply{}, err
	}
	c, err := s.clientOf(req.Env, req.Root, req.Cwd, req.Umask)
	if err != nil {
		return reply{}, err
	}
	dir, err := await(ctx, s.limit, func(context.Context) (string, error) { return directory(c.root) })
	if err != nil {
		return reply{}, err
	}
	path, err := c.locate(shell)
	if err != nil {
		return reply{}, noShell(err)
	}
	a, err := s.arrange(ctx, wish{string(req.Sandbox), req.Network, c, path})
	if err != nil {
		return reply{}, err
	}
	defer a.release()
	j := s.job(c, shell, "-c", command)
	if a.level != levelUnit || c.root != "" { // else the unit has a place of its own
		j = j.in(dir)
	}
	if req.OutputBytes > 0 {
		j.outputMax = min(req.OutputBytes, packetRoom)
	}
	o, err := s.runShell(ctx, a, j, path, shown)
	if err == nil {
		o, err = a.conclude(o)
	}
	if err != nil {
		return reply{}, err
	}
	r, err := s.shellReply(o)
	return reply{r, a.report(o)}, err
}

// commandOf reads the input of bash.
func commandOf(input []byte) (string, error) {
	var in struct {
		Command string `json:"command"`
	}
	if err := files.Decode(input, &in); err != nil {
		return "", err
	}
	if strings.ContainsRune(in.Command, 0) {
		return "", &files.Error{Code: files.InvalidInput, Message: "The command holds a NUL character."}
	}
	return in.Command, nil
}

// runShell runs j, shows what it prints, and keeps outputs that are too long.
func (s *Service) runShell(ctx context.Context, a *arrangement, j job, path string, shown *live) (outcome, error) {
	var whole []*spill
	j.tap = func(name string, c *capture) io.Writer {
		whole = append(whole, newSpill(s.outputs, name, c, j.outputMax))
		if shown == nil {
			return whole[len(whole)-1]
		}
		return io.MultiWriter(whole[len(whole)-1], shown.stream())
	}
	p, err := a.start(j, path)
	if err != nil {
		return outcome{}, noShell(err)
	}
	o, err := p.wait(ctx, s.limit)
	if errors.Is(err, errUnkillable) {
		return outcome{}, err // what is left may still write
	}
	for _, w := range whole {
		w.end(err == nil && !o.interrupted)
	}
	return o, err
}

// shellReply words an outcome for the model.
func (s *Service) shellReply(o outcome) (files.Reply, error) {
	if o.verdict == unstarted {
		return files.Reply{}, &files.Error{Code: codeExec, Message: o.complaint(shell)}
	}
	r := s.result(o, shell)
	return files.Reply{Data: bashData{r.Stdout, r.Stderr, r.ExitCode, r.TimedOut, r.Truncated, r.Interrupted}}, nil
}

// noShell is the error of a shell that cannot be started.
func noShell(err error) error {
	if _, ok := errors.AsType[*refusal](err); ok {
		return err
	}
	return &files.Error{Code: codeExec, Message: "Cannot start " + shell + ": " + err.Error()}
}
