package exc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/proto"
	"zino/services/exc/cgroup"
	"zino/services/exc/confine"
	"zino/services/exc/files"
)

// Levels of confinement, from none to one's own uid.
const (
	levelOff       = "off"
	levelReadOnly  = "read-only"
	levelWorkspace = "workspace-write"
	levelUnit      = "unit"
)

// probeLimit is how long the attempt to confine something may take.
const probeLimit = 10 * time.Second

// refusal says why a level of confinement cannot be had. It is never lowered.
type refusal struct {
	level string
	why   error
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the sandbox %q is not to be had here: %v", r.level, r.why)
}

// sandbox is what a service has to confine code with.
type sandbox struct {
	level     string // as configured
	network   bool
	limits    cgroup.Limits
	tree      *cgroup.Tree // nil: there are no groups here, for the reason noTree
	noTree    error
	home      string   // of the caller; empty: none
	protected []string // Zino's own files, wherever they lie and whether they are there or not
	data      []string // directories that Zino writes to, once they are there
	unit      string   // the socket that starts commands in units of their own
	secrets   []string // where the user's keys are, be they there or not

	mu   sync.Mutex
	host *confine.Host // once it is known

	open openRuns
}

// newSandbox looks for what the host gives.
func newSandbox(cfg config.Exc) *sandbox {
	b := &sandbox{
		level: cfg.Sandbox, network: cfg.Network, unit: unitSocket,
		limits: cgroup.Limits{Memory: cfg.MemoryMax, Tasks: cfg.TasksMax, CPU: cfg.CPUMax},
	}
	b.tree, b.noTree = cgroup.Open()
	if home := os.Getenv("HOME"); filepath.IsAbs(home) && filepath.Clean(home) != "/" {
		b.home = filepath.Clean(home)
		if real, err := filepath.EvalSymlinks(home); err == nil {
			b.home = real
		}
	}
	if base, err := keys.Base(os.Getenv); err == nil {
		b.protected = append(b.protected, base)
	}
	if store, err := keys.OpenUser(os.Getenv); err == nil {
		b.secrets = append(b.secrets, store.Dir())
	}
	return b
}

// close removes what was made on the host.
func (b *sandbox) close() error {
	if b.tree == nil {
		return nil
	}
	return b.tree.Close()
}

// wish is what a request says about its confinement.
type wish struct {
	level   string // empty: as configured
	network *bool  // nil: as configured
	client  client
	program string // the path of what is run; empty: nothing is
}

// settle fills in what the wish leaves to the configuration.
func (b *sandbox) settle(w wish) (level string, network bool, err error) {
	level, network = w.level, b.network
	if level == "" {
		level = b.level
	}
	if w.network != nil {
		network = *w.network
	}
	if !slices.Contains(config.Sandboxes, level) {
		return "", false, &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("unknown sandbox %q: there are %s", level, strings.Join(config.Sandboxes, ", "))}
	}
	if level == levelOff && w.network != nil && !network {
		return "", false, &proto.Error{Code: proto.CodeInvalid, Message: withoutNetwork}
	}
	return level, network || level == levelOff, nil
}

// withoutNetwork says what a wish for no network needs.
var withoutNetwork = fmt.Sprintf("the sandbox %q keeps no code from the network: ask for one of %s, or do not ask for network = false",
	levelOff, strings.Join(slices.DeleteFunc(slices.Clone(config.Sandboxes), func(l string) bool { return l == levelOff }), ", "))

// workRoot is the directory of a confined run. Without a root it is where the
// service was started, and none at all if that is the host's root.
func (s *Service) workRoot(root string) (string, error) {
	if root == "" {
		dir, err := os.Getwd()
		if err != nil || dir == "/" {
			return "", err
		}
		root = dir
	}
	real, err := confine.Root(root, s.sandbox.home)
	if err == nil && confine.Within(s.files.path(), real) {
		return "", fmt.Errorf("%s holds the directory in which code is put before it runs: work in a directory of the project's own", real)
	}
	if err == nil {
		err = s.sandbox.secretRoot(real)
	}
	return real, err
}

// hostFor is what the host gives to confine code with, found out once it gives
// enough.
func (s *Service) hostFor(ctx context.Context) confine.Host {
	b := s.sandbox
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.host == nil {
		host := confine.Look(func() error { return s.tryNamespaces(ctx) })
		if host.Unable() != nil || ctx.Err() != nil {
			return host
		}
		b.host = &host
	}
	return *b.host
}

// tryNamespaces runs nothing in namespaces and says why that did not work.
func (s *Service) tryNamespaces(ctx context.Context) error {
	path, err := locate(shell)
	if err != nil {
		return err
	}
	tmp, err := s.files.newDir()
	if err != nil {
		return err
	}
	defer s.files.remove(tmp)
	c, err := s.clientOf(nil, "", "", nil)
	if err != nil {
		return err
	}
	j := s.job(c, shell, "-c", ":")
	j.plan = &confine.Plan{Tmp: tmp, Dir: "/tmp", Read: confine.System("", s.sandbox.home), Namespaces: true}
	p, err := startProcess(j, path)
	if err != nil {
		return err
	}
	o, err := p.wait(ctx, probeLimit)
	switch {
	case err != nil:
		return err
	case o.interrupted:
		return ctx.Err()
	case o.verdict == unconfined:
		return errors.New(o.why)
	case o.exitCode() != 0 || o.timedOut:
		return fmt.Errorf("a trial ended with status %d: %s%s", o.exitCode(), strings.TrimSpace(o.stderr), o.complaint(shell))
	}
	return nil
}

// asError is the error of execute for a run that cannot be confined as asked.
func asError(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return &proto.Error{Code: proto.CodeUnavailable, Message: r.Error()}
	}
	return err
}

// asResult is the error of a call for a run that cannot be confined as asked: a
// result, if it is the caller's business.
func asResult(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return &files.Error{Code: codeSandbox, Message: r.Error()}
	}
	if e, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeInvalid {
		return &files.Error{Code: files.InvalidInput, Message: e.Message}
	}
	return err
}
