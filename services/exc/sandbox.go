package exc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zino/pkg/durable"
	"zino/pkg/environ"
	"zino/pkg/gate"
	"zino/proto"
	"zino/services/exc/cgroup"
	"zino/services/exc/files"
	"zino/services/exc/run"
	"zino/services/exc/sandbox"
)

// Sandbox confines one run at a level. It must be closed.
type Sandbox struct {
	s         *Service
	level     proto.Level
	network   bool
	means     []string // what enforces it
	unlimited []string // limits that nothing enforces
	group     *cgroup.Group
	plan      *sandbox.Plan // nil: at the levels off and unit
	tmp       string        // the run's own directory; empty: not needed
	keeps     kept
	denied    gate.DeniedPaths

	protected  *sandbox.Protected
	violations []sandbox.Violation
	gap        string // what of the root was not protected
}

// kept are directories that outlive a run; empty: none.
type kept struct {
	job  string // of the job that runs it
	home string // the home of its program
}

// refusal says why a level of confinement is not available. A level is never
// lowered instead.
type refusal struct {
	level proto.Level
	why   error
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the sandbox %q is not available on this host: %v", r.level, r.why)
}

// asError is the error of execute for a run that cannot be confined as asked.
func asError(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return &proto.Error{Code: proto.CodeUnavailable, Message: r.Error()}
	}
	return err
}

// asResult is asError for a call: the error is a result that the model sees.
func asResult(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return &files.Error{Code: codeSandbox, Message: r.Error()}
	}
	if e, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeInvalid {
		return &files.Error{Code: files.InvalidInput, Message: e.Message}
	}
	return err
}

// sandboxFor confines cmd as a request of a turn asks. Below root the command may work;
// without one, where the service was started.
func (s *Service) sandboxFor(ctx context.Context, turn *gate.Turn, level proto.Level, network *bool, root string, cmd *run.Cmd, keeps kept) (*Sandbox, error) {
	level, allowed, err := s.host.settle(level, network)
	if err != nil {
		return nil, err
	}
	if level.Confined() && level != proto.LevelUnit {
		if root, err = s.workRoot(root); err != nil {
			return nil, &refusal{level, err}
		}
	}
	return s.newSandbox(ctx, turn, level, allowed, root, cmd, keeps)
}

// newSandbox confines cmd at a level to a root, or to a directory of its own if
// that is empty. turn is nil for an analyser. The error is a *refusal if that is not
// possible.
func (s *Service) newSandbox(ctx context.Context, turn *gate.Turn, level proto.Level, network bool, root string, cmd *run.Cmd, keeps kept) (*Sandbox, error) {
	b := &Sandbox{s: s, level: level, network: network, means: []string{}, keeps: keeps}
	if level == proto.LevelUnit {
		b.network, b.means = false, []string{"unit"}
		cmd.Unit, cmd.UnitLimits = s.host.unit, s.host.limits.Names()
		cmd.Env = unitEnviron(cmd.Env)
		cmd.Dir = root // without one the unit makes a directory
		cmd.Output.Ceiling = s.ceiling
		return b, nil
	}
	if level.Confined() {
		if err := b.confine(ctx, turn, root, cmd); err != nil {
			b.close()
			return nil, err
		}
	}
	if keeps.job == "" { // a job makes its own group
		b.unlimited = s.host.limits.Names()
	}
	if s.host.tree != nil && keeps.job == "" {
		group, err := s.host.tree.New(s.host.limits)
		if err == nil {
			b.group, b.unlimited = group, s.host.tree.Unlimited(s.host.limits)
			b.means = append([]string{"cgroup"}, b.means...)
		} else {
			s.log.Warn("no control group for a run", "error", err)
		}
	}
	if b.plan != nil && b.plan.Tasks > 0 {
		b.unlimited = slices.DeleteFunc(b.unlimited, func(name string) bool { return name == cgroup.Tasks })
	}
	if b.plan != nil && !b.plan.Namespaces {
		b.unlimited = append(b.unlimited, "file modes") // of files whose content Landlock protects
		if b.plan.Writable {
			b.unlimited = append(b.unlimited, "protected files") // until the run ends
		}
	}
	cmd.Group = b.group
	return b, nil
}

// confine plans the confinement of cmd.
func (b *Sandbox) confine(ctx context.Context, turn *gate.Turn, root string, cmd *run.Cmd) (err error) {
	s := b.s
	kernel := s.kernel(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := kernel.Unable(); err != nil {
		return &refusal{b.level, err}
	}
	if b.tmp, err = b.newDir(); err != nil {
		return cannotStart(err)
	}
	b.means = kernel.Means()
	if b.plan, err = s.plan(kernel, b.level, b.network, root, cmd.Path, environ.Get(cmd.Env, "PATH")); err != nil {
		return err
	}
	if err := b.deny(turn, root); err != nil {
		return &refusal{b.level, err}
	}
	b.plan.Tmp, b.plan.Home, b.plan.Memory = b.tmp, b.keeps.home, s.host.limits.Memory
	if kernel.LimitsTasks() {
		b.plan.Tasks = s.host.limits.Tasks
	}
	if root == "" {
		b.plan.Dir = b.home()
	}
	if cmd.Script != nil {
		b.plan.Read = append(b.plan.Read, filepath.Dir(cmd.Script.File))
	}
	if b.plan.Writable {
		if err := b.protect(root); err != nil {
			return &refusal{b.level, err}
		}
	}
	cmd.Plan, cmd.Output.Ceiling = b.plan, s.ceiling
	cmd.Env = confinedEnviron(cmd.Env, b.home(), b.ownDir())
	cmd.Chdir(b.plan.Dir)
	if b.plan.Namespaces {
		cmd.Dir = "" // the supervisor changes to it when it is visible
	}
	return nil
}

// newDir makes the run's own directory.
func (b *Sandbox) newDir() (string, error) {
	if b.keeps.job == "" {
		return b.s.files.newDir()
	}
	dir := filepath.Join(b.keeps.job, tmpName)
	return dir, os.MkdirAll(dir, durable.DirMode)
}

// plan is what a program may do at a level, without limits, a directory of its own
// and protected paths. It may read the system, itself, the outputs of earlier
// commands, and how to find hosts. The error is a *refusal.
func (s *Service) plan(kernel sandbox.Kernel, level proto.Level, network bool, root, program, path string) (*sandbox.Plan, error) {
	p := &sandbox.Plan{
		Root: root, Writable: level != proto.LevelReadOnly && root != "", Dir: root, Network: network,
		Namespaces: kernel.NoNamespaces == nil, Landlock: kernel.Landlock,
	}
	read := append(s.host.readable(program, path), append(s.outputs.Dirs(), s.jobs.Outputs()...)...)
	if file, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && network {
		read = append(read, file)
	}
	given := sandbox.Outermost(read)
	p.Read = slices.DeleteFunc(slices.Clone(given), func(path string) bool { return root != "" && sandbox.Within(path, root) }) // the root comes with it
	if root != "" {
		given = append(given, root)
	}
	p.Hidden = s.host.hidden(given)
	if err := hideable(p); err != nil {
		return nil, &refusal{level, err}
	}
	return p, nil
}

// hideable returns an error if what a plan hides would be visible: Landlock gives a root
// whole, or not at all.
func hideable(p *sandbox.Plan) error {
	for _, path := range p.Hidden {
		if !p.Namespaces && p.Root != "" && sandbox.Within(path, p.Root) {
			return fmt.Errorf("%s contains %s, which code must not read, and without namespaces that cannot be hidden: work in a directory of the project's own", p.Root, path)
		}
	}
	return nil
}

// deny hides from the run what rules deny to the tools of files. An analyser, which has no
// turn, runs none of its code.
func (b *Sandbox) deny(turn *gate.Turn, root string) error {
	if b.s.guard == nil || turn == nil {
		return nil
	}
	dirs := b.plan.Read
	if root != "" {
		dirs = append(slices.Clone(dirs), root)
	}
	b.denied = b.s.guard.DeniedPaths(*turn, root, b.level, dirs)
	if why := b.denied.Root; why != "" {
		return fmt.Errorf("commands cannot work in %s: %s", root, why)
	}
	b.plan.Hidden = append(b.plan.Hidden, b.denied.Read...)
	return hideable(b.plan)
}

// notHidden returns a line for each rule that the run does not keep to.
func (b *Sandbox) notHidden() (lines []string) {
	for _, gap := range b.denied.Gaps {
		lines = append(lines, "zino: not everything that this rule denies is hidden from commands: "+gap)
	}
	return lines
}

// ownDir is where the run sees its own directory.
func (b *Sandbox) ownDir() string {
	if b.plan != nil && b.plan.Namespaces {
		return "/tmp"
	}
	return b.tmp
}

// home is the run's HOME as it sees it: its own directory, or the one that is kept.
func (b *Sandbox) home() string {
	switch {
	case b.keeps.home == "":
		return b.ownDir()
	case b.plan.Namespaces:
		return sandbox.HomeDir
	}
	return b.keeps.home
}

// wait waits for the end, checks what the run left in protected places, and adds
// to its standard error what was found, and why writes were refused.
func (b *Sandbox) wait(ctx context.Context, p *run.Process) (run.Result, error) {
	r, lines, err := b.end(ctx, p)
	for _, line := range lines {
		r.Stderr = withLine(r.Stderr, line)
	}
	return r, err
}

// end is wait with the lines for standard error on their own.
func (b *Sandbox) end(ctx context.Context, p *run.Process) (r run.Result, lines []string, err error) {
	if r, err = p.Wait(ctx); err != nil {
		return r, nil, err
	}
	lines = b.explain(r.Stdout, r.Stderr, r.ExitCode() != 0)
	b.checkProtected()
	lines = append(lines, sandbox.ViolationLines(b.violations)...)
	if b.gap != "" {
		lines = append(lines, b.gap)
	}
	lines = append(lines, b.notHidden()...)
	if r.End == run.NotConfined {
		return r, nil, &refusal{b.level, errors.New(r.Reason)}
	}
	return r, lines, nil
}

// explain returns why writes of the run were refused, a line for each reason.
func (b *Sandbox) explain(stdout, stderr string, failed bool) []string {
	switch {
	case b.protected != nil:
		return b.protected.Explain(stdout, stderr, failed)
	case b.level == proto.LevelReadOnly && b.plan != nil && b.plan.Root != "":
		return sandbox.ExplainREPL(b.plan.Root, stdout, stderr, failed)
	}
	return nil
}

// report returns how the run was confined and what it has used.
func (b *Sandbox) report(r run.Result) *proto.Confinement {
	c := &proto.Confinement{Sandbox: b.level, Network: b.network, Means: b.means, Unlimited: b.unlimited}
	switch {
	case r.TimedOut:
		c.Limit = "time"
	case r.Flooded:
		c.Limit = "output"
	}
	if b.gap != "" {
		c.Unlimited = append(slices.Clone(c.Unlimited), "scan")
	}
	if len(b.denied.Gaps) > 0 {
		c.Unlimited = append(slices.Clone(c.Unlimited), "rules")
	}
	for _, v := range b.violations {
		if name := v.Where(); name != "" {
			c.Refused = append(c.Refused, name)
		}
	}
	if u := r.Unit; u != nil {
		c.CPUMS, c.PeakBytes, c.Unlimited = u.CPUMS, u.PeakBytes, u.Unlimited
		c.Limit = cmp.Or(c.Limit, u.Limit)
	}
	if b.group == nil {
		return c
	}
	u := b.group.Usage()
	c.CPUMS, c.PeakBytes = new(u.CPU.Milliseconds()), u.PeakBytes()
	c.Limit = cmp.Or(c.Limit, u.Exceeded(r.ExitCode() != 0))
	return c
}

// close removes the control group and the directory of the run.
func (b *Sandbox) close() {
	b.checkProtected()
	if b.group != nil {
		if err := b.group.Remove(); err != nil {
			b.s.log.Warn("cannot remove a control group", "error", err)
		}
	}
	if b.tmp != "" {
		b.s.files.remove(b.tmp)
	}
}

// sessionNames are variables that lead to sockets and files of the user's
// session, which confined code cannot reach.
var sessionNames = []string{
	"HOME", "TMPDIR", "TMP", "TEMP", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY",
	"XAUTHORITY", "OLDPWD",
}

// confinedEnviron is env for code that has only directories of its own.
func confinedEnviron(env []string, home, tmp string) []string {
	kept := slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return hasName(entry, sessionNames...) || strings.HasPrefix(entry, "XDG_")
	})
	return append(kept, "HOME="+home, "TMPDIR="+tmp)
}

// unitEnviron is env for another user, without what leads to this user's files.
func unitEnviron(env []string) []string {
	return slices.DeleteFunc(confinedEnviron(env, "", ""), func(entry string) bool {
		return entry == "HOME=" || entry == "TMPDIR=" || hasName(entry, "USER", "LOGNAME", "PWD", "MAIL", "SHELL")
	})
}

// hasName reports whether a variable has one of those names.
func hasName(entry string, names ...string) bool {
	name, _, _ := strings.Cut(entry, "=")
	return slices.Contains(names, name)
}
