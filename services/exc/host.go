package exc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/catalog/skill/folders"
	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/proto"
	"zino/services/exc/cgroup"
	"zino/services/exc/run"
	"zino/services/exc/sandbox"
)

// probeLimit is how long the attempt to confine something may take.
const probeLimit = 10 * time.Second

// host is what this host offers to confine code, and what the configuration asks
// for.
type host struct {
	level   proto.Level
	network bool
	limits  cgroup.Limits
	tree    *cgroup.Tree // nil: no control groups here, for the reason noTree
	noTree  error
	unit    string    // the socket that starts commands in units of their own
	pipes   [2]string // those of programs with input: without the network, and with it

	home      string   // of the user; empty: unknown
	protected []string // Zino's own files, whether they exist or not
	data      []string // directories that Zino writes to, once they exist
	secrets   []string // where the user's keys are, whether they exist or not
	skills    []string // directories with folders of skills, which code may read, whether they exist or not
	private   []string // what exc and the daemon keep of turns, which code must not read, whether it exists or not

	mu     sync.Mutex
	kernel *sandbox.Kernel // nil: not yet probed

	open openRuns
}

func newHost(cfg config.Exc) *host {
	h := &host{
		level: cfg.Sandbox, network: cfg.Network, unit: run.UnitSocket, pipes: [2]string{run.PipeSocket, run.PipeNetSocket},
		limits: cgroup.Limits{Memory: cfg.MemoryMax, Tasks: cfg.TasksMax, CPU: cfg.CPUMax},
	}
	h.tree, h.noTree = cgroup.Open()
	if home := os.Getenv("HOME"); filepath.IsAbs(home) && filepath.Clean(home) != "/" {
		h.home = filepath.Clean(home)
		if real, err := filepath.EvalSymlinks(home); err == nil {
			h.home = real
		}
	}
	if base, err := keys.Base(os.Getenv); err == nil {
		h.protected = append(h.protected, base)
	}
	if store, err := keys.OpenUser(os.Getenv); err == nil {
		h.secrets = append(h.secrets, store.Dir())
	}
	return h
}

// close removes the control groups.
func (h *host) close() error {
	if h.tree == nil {
		return nil
	}
	return h.tree.Close()
}

// settle fills in what a request leaves to the configuration.
func (h *host) settle(level proto.Level, network *bool) (proto.Level, bool, error) {
	if level == "" {
		level = h.level
	}
	if !slices.Contains(proto.Levels, level) {
		return "", false, proto.Errorf(proto.CodeInvalid, "unknown sandbox %q: there are %s", level, levelNames(proto.Levels))
	}
	if !level.Confined() {
		if network != nil && !*network {
			confined := slices.DeleteFunc(slices.Clone(proto.Levels), func(l proto.Level) bool { return !l.Confined() })
			return "", false, proto.Errorf(proto.CodeInvalid, "the sandbox %q keeps no code from the network: ask for one of %s, or do not ask for network = false", level, levelNames(confined))
		}
		return level, true, nil
	}
	if network != nil {
		return level, *network, nil
	}
	return level, h.network, nil
}

func levelNames(levels []proto.Level) string {
	var names []string
	for _, level := range levels {
		names = append(names, string(level))
	}
	return strings.Join(names, ", ")
}

// readable lists what every confined run may read with that $PATH, and what
// belongs to program.
func (h *host) readable(program, path string) []string {
	list := sandbox.System(path, h.home)
	if real, err := filepath.EvalSymlinks(program); err == nil && program != "" {
		list = append(list, sandbox.Companions(filepath.Dir(real), h.home)...)
	}
	return append(list, h.skillFolders()...)
}

// skillFolders are the real paths of the skills of the user and the host: their folders,
// and those that links in them lead to.
func (h *host) skillFolders() (list []string) {
	for _, dir := range h.skills {
		for _, real := range realPaths(append([]string{dir}, folders.In(dir)...)) {
			if !sandbox.Within(h.home, real) && !sandbox.Within("/", real) { // else it is not a directory for skills alone
				list = append(list, real)
			}
		}
	}
	return sandbox.Outermost(list)
}

// hidden are the private data and the secrets of the host and of the user within dirs, all
// real paths.
func (h *host) hidden(dirs []string) []string {
	return sandbox.Secrets(dirs, append(h.ownSecrets(), realPaths(h.private)...)...)
}

// ownSecrets are the real paths of the user's keys, as far as they exist.
func (h *host) ownSecrets() []string { return realPaths(h.secrets) }

// realPaths are those of paths that exist, without symbolic links.
func realPaths(paths []string) (list []string) {
	for _, path := range paths {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			list = append(list, real)
		}
	}
	return list
}

// workRoot is the directory of a confined run, without symbolic links. Without a
// root it is where the service was started; empty if that is /.
func (s *Service) workRoot(root string) (string, error) {
	if root == "" {
		dir, err := os.Getwd()
		if err != nil || dir == "/" {
			return "", err
		}
		root = dir
	}
	real, err := sandbox.Root(root, s.host.home)
	if err != nil {
		return "", err
	}
	if sandbox.Within(s.files.path(), real) {
		return "", fmt.Errorf("%s contains the directory in which code is put before it runs: work in a directory of the project's own", real)
	}
	if secret := sandbox.SecretOver(real, append(s.host.ownSecrets(), realPaths(s.host.private)...)...); secret != "" {
		return "", fmt.Errorf("%s contains secrets that code must not read: work in a directory of the project's own", secret)
	}
	return real, nil
}

// kernel returns what the kernel offers to confine code. It is probed again as long
// as that is not enough.
func (s *Service) kernel(ctx context.Context) sandbox.Kernel {
	h := s.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kernel == nil {
		kernel := sandbox.Probe(func() error { return s.tryNamespaces(ctx) })
		if kernel.Unable() != nil || ctx.Err() != nil {
			return kernel
		}
		h.kernel = &kernel
	}
	return *h.kernel
}

// tryNamespaces runs a shell that does nothing in namespaces.
func (s *Service) tryNamespaces(ctx context.Context) error {
	c, err := s.clientOf(nil, "", "", nil)
	if err != nil {
		return err
	}
	cmd := s.command(c, shell, "-c", ":")
	cmd.Limit = probeLimit
	if cmd.Path, err = locate(shell); err != nil {
		return err
	}
	tmp, err := s.files.newDir()
	if err != nil {
		return err
	}
	defer s.files.remove(tmp)
	cmd.Plan = &sandbox.Plan{Tmp: tmp, Dir: "/tmp", Read: sandbox.System("", s.host.home), Namespaces: true}
	p, err := run.Start(cmd)
	if err != nil {
		return err
	}
	r, err := p.Wait(ctx)
	switch {
	case err != nil:
		return err
	case r.Interrupted:
		return ctx.Err()
	case r.End == run.NotConfined:
		return errors.New(r.Reason)
	case r.ExitCode() != 0 || r.TimedOut:
		return fmt.Errorf("a trial ended with status %d: %s%s", r.ExitCode(), strings.TrimSpace(r.Stderr), r.Failure(shell))
	}
	return nil
}

// levelProblem returns why a level is not available on this host, nil if it is.
func (s *Service) levelProblem(ctx context.Context, level proto.Level) error {
	switch level {
	case proto.LevelOff:
		return nil
	case proto.LevelUnit: // without connecting, which would start a unit
		fi, err := os.Stat(s.host.unit)
		if err == nil && fi.Mode()&fs.ModeSocket == 0 {
			err = fmt.Errorf("%s is not a socket", s.host.unit)
		}
		if err != nil {
			return fmt.Errorf("%w: zino-run.socket of a system installation listens there", err)
		}
		return nil
	}
	return s.kernel(ctx).Unable()
}

// levelStats adds the available levels and their means, the reasons why others are
// not available, and the configured limits that are not enforced.
func (s *Service) levelStats(ctx context.Context, st *proto.Stats) {
	var available []proto.Level
	for _, level := range proto.Levels {
		err := s.levelProblem(ctx, level)
		if err == nil {
			available = append(available, level)
			continue
		}
		st.Info["no sandbox "+string(level)] = err.Error()
		if level == s.host.level {
			st.Problems = append(st.Problems, fmt.Sprintf("[exc] sandbox = %q is not available on this host, and no code is run: %v", level, err))
		}
	}
	st.Info["sandbox"] = string(s.host.level)
	st.Info["sandboxes"] = levelNames(available)
	if slices.Contains(available, proto.LevelUnit) {
		if err := s.homes.unitProblem(); err != nil {
			st.Info["no homes in units"] = err.Error()
		}
	}
	if slices.Contains(available, proto.LevelReadOnly) {
		kernel := s.kernel(ctx)
		st.Info["sandbox means"] = strings.Join(kernel.Means(), ", ")
		if kernel.NoNamespaces != nil {
			st.Info["no namespaces"] = kernel.NoNamespaces.Error()
		}
	}
	unlimited := s.host.limits.Names()
	if s.host.tree != nil {
		unlimited = s.host.tree.Unlimited(s.host.limits)
	} else {
		st.Info["no control groups"] = s.host.noTree.Error()
	}
	if len(unlimited) > 0 {
		st.Info["limits not enforced"] = strings.Join(unlimited, ", ")
	}
}
