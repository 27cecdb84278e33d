package exc

import (
	"context"
	"path/filepath"
	"slices"

	"zino/pkg/environ"
	"zino/services/exc/cgroup"
	"zino/services/exc/confine"
	"zino/services/exc/protect"
)

// arrangement is how one run is confined. It must be released.
type arrangement struct {
	s       *Service
	level   string
	network bool
	means   []string
	weak    []string // limits that nothing enforces
	group   *cgroup.Group
	plan    *confine.Plan
	tmp     string // the run's own directory; empty: none

	protected  *protect.Protected
	violations []protect.Violation
	gap        string // what of the root was not protected
}

// arrange prepares a run at the level that w wishes. The error is a *refusal
// if that cannot be had.
func (s *Service) arrange(ctx context.Context, w wish) (*arrangement, error) {
	level, network, err := s.sandbox.settle(w)
	if err != nil {
		return nil, err
	}
	a := &arrangement{s: s, level: level, network: network, means: []string{}}
	if level == levelUnit {
		a.network = false
		return a, nil
	}
	if err := a.confine(ctx, w); err != nil {
		a.release()
		return nil, err
	}
	a.join()
	return a, nil
}

// confine plans the confinement of levels that have one.
func (a *arrangement) confine(ctx context.Context, w wish) error {
	if a.level == levelOff {
		return nil
	}
	root, err := a.s.workRoot(w.client.root)
	if err != nil {
		return &refusal{a.level, err}
	}
	return a.confineTo(ctx, root, w.program, environ.Get(w.client.env, "PATH"))
}

// confineTo plans the confinement of a program to a root, or to nothing if that
// is empty, with what lies in the directories of path, a $PATH.
func (a *arrangement) confineTo(ctx context.Context, root, program, path string) (err error) {
	host := a.s.hostFor(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := host.Unable(); err != nil {
		return &refusal{a.level, err}
	}
	if a.tmp, err = a.s.files.newDir(); err != nil {
		return cannotStart(err)
	}
	a.plan, a.means = a.planFor(host, root), host.Means()
	if root == "" {
		a.plan.Dir = a.home()
	}
	a.readable(program, path)
	if err := a.hide(); err != nil {
		return &refusal{a.level, err}
	}
	if a.plan.Writable {
		if err := a.protect(root); err != nil {
			return &refusal{a.level, err}
		}
	}
	return nil
}

// planFor is the plan of a run below root, without what it may read.
func (a *arrangement) planFor(host confine.Host, root string) *confine.Plan {
	limits := a.s.sandbox.limits
	p := &confine.Plan{
		Root: root, Writable: a.level == levelWorkspace && root != "", Dir: root, Tmp: a.tmp, Network: a.network,
		Namespaces: host.NoNamespaces == nil, Landlock: host.Landlock, Memory: limits.Memory,
	}
	if host.LimitsTasks() {
		p.Tasks = limits.Tasks
	}
	return p
}

// home is where the run sees its own directory. It is code's home, too.
func (a *arrangement) home() string {
	if a.plan != nil && a.plan.Namespaces {
		return "/tmp"
	}
	return a.tmp
}

// readable gives the run what it may read beside its root: the system, the
// program that it runs, the outputs of earlier commands, and how to find hosts.
func (a *arrangement) readable(program, path string) {
	list := a.s.sandbox.system(program, path)
	list = append(list, a.s.outputs.places()...)
	if file, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && a.network {
		list = append(list, file)
	}
	a.give(list)
}

// give lets the run read what is listed. What lies below its root is given with
// that, and perhaps to write.
func (a *arrangement) give(list []string) {
	root := a.plan.Root
	a.plan.Read = slices.DeleteFunc(confine.Outermost(append(list, a.plan.Read...)), func(path string) bool {
		return root != "" && confine.Within(path, root)
	})
}

// system lists what every confined run may read with that $PATH, and what belongs
// to program.
func (b *sandbox) system(program, path string) []string {
	list := confine.System(path, b.home)
	if real, err := filepath.EvalSymlinks(program); err == nil && program != "" {
		list = append(list, confine.Companions(filepath.Dir(real), b.home)...)
	}
	return list
}

// join has the run take place in a control group, where there are any.
func (a *arrangement) join() {
	b := a.s.sandbox
	a.weak = b.limits.Names()
	if b.tree != nil {
		group, err := b.tree.New(b.limits)
		if err == nil {
			a.group, a.weak = group, b.tree.Unlimited(b.limits)
			a.means = append([]string{"cgroup"}, a.means...)
		} else {
			a.s.log.Warn("no control group for a run", "error", err)
		}
	}
	if a.plan != nil && a.plan.Tasks > 0 {
		a.weak = slices.DeleteFunc(a.weak, func(name string) bool { return name == cgroup.Tasks })
	}
	if a.plan != nil && !a.plan.Namespaces {
		a.weak = append(a.weak, landlockGaps(a.plan.Writable)...)
	}
}

// landlockGaps name what Landlock does not forbid: to change the modes and times
// of files whose content it keeps, and, until the run ends, protected files.
func landlockGaps(writable bool) []string {
	if writable {
		return []string{"file modes", "protected files"}
	}
	return []string{"file modes"}
}

// start starts a job, whose program is at path, as arranged.
func (a *arrangement) start(j job, path string) (*process, error) {
	if a.level == levelUnit {
		return a.s.startUnit(j, a)
	}
	return startProcess(a.shape(j), path)
}

// shape has a job run as arranged.
func (a *arrangement) shape(j job) job {
	j.group, j.plan = a.group, a.plan
	if a.plan == nil {
		return j
	}
	if j.script != nil {
		a.give([]string{filepath.Dir(j.script.file)})
	}
	j.floodMax = a.s.floodMax
	j.env = confinedEnviron(j.env, a.home())
	j = j.in(a.plan.Dir)
	if a.plan.Namespaces {
		j.dir = "" // which the supervisor finds in what it builds
	}
	return j
}

// release takes away what the run had.
func (a *arrangement) release() {
	a.checkProtected()
	if a.group != nil {
		if err := a.group.Remove(); err != nil {
			a.s.log.Warn("a control group is left", "error", err)
		}
	}
	if a.tmp != "" {
		a.s.files.remove(a.tmp)
	}
}
