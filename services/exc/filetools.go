package exc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/environ"
	"zino/proto"
	"zino/services/exc/files"
	"zino/services/exc/sandbox"
)

// onFile carries out read, write or edit: at the level off in this process, at
// the others in a helper in the sandbox. It calls begin for a change that the sandbox
// allows, before it is made, and for a read, before its result is returned.
func (s *Service) onFile(ctx context.Context, req proto.Call, begin func(context.Context, start) error) (reply, error) {
	c, err := s.clientOf(req.Env, req.Root, req.Cwd, req.Umask)
	if err != nil {
		return reply{}, err
	}
	level, network, err := s.host.settle(req.Sandbox, req.Network)
	if err != nil {
		return reply{}, err
	}
	if err := s.levelProblem(ctx, level); err != nil {
		return reply{}, &refusal{level, err}
	}
	root, err := await(ctx, s.limit, func(context.Context) (string, error) { return directory(c.root) })
	if err != nil {
		return reply{}, err
	}
	how := &proto.Confinement{Sandbox: level, Network: network, Means: []string{}}
	call := files.Call{Tool: req.Tool, Root: root, Input: append([]byte(nil), req.Input...), Text: req.Text} // it outlives the request's buffer
	allowed := func(ctx context.Context, p files.Plan) error {
		return begin(ctx, start{root: root, level: level, plan: &p})
	}
	if level.Confined() {
		r, err := s.onConfinedFile(ctx, level, c, call, how, allowed)
		return reply{r, how}, err
	}
	r, err := await(ctx, s.limit, func(ctx context.Context) (files.Reply, error) {
		if err := withUmask(c.umask); err != nil {
			return files.Reply{}, err
		}
		return files.Do(ctx, call, nil, func(p files.Plan) error { return allowed(ctx, p) })
	})
	return reply{r, how}, err
}

// onConfinedFile carries out a call in a helper. The level unit has no access to
// the caller's files: they are worked on as with workspace-write.
func (s *Service) onConfinedFile(ctx context.Context, level proto.Level, c client, call files.Call, how *proto.Confinement, allowed func(context.Context, files.Plan) error) (files.Reply, error) {
	kernel := s.kernel(ctx)
	if err := kernel.Unable(); err != nil {
		return files.Reply{}, &refusal{level, err}
	}
	how.Means = kernel.Means()
	root, err := await(ctx, s.limit, func(context.Context) (string, error) {
		root, err := s.workRoot(c.root)
		if err != nil {
			return "", &refusal{level, err}
		}
		return root, nil
	})
	if err != nil {
		return files.Reply{}, err
	}
	if root != "" && root != call.Root {
		call.Named, call.Root = call.Root, root
	}
	view := files.Sandbox{Root: root, Write: level != proto.LevelReadOnly && root != ""}
	if call.Tool != files.Read && !view.Write {
		return files.Do(ctx, call, &view, func(p files.Plan) error { // which refuses
			if root == "" {
				return nil
			}
			if why := sandbox.REPLRefusal(p.Path, root); why != "" {
				return &files.Error{Code: files.Denied, Message: why}
			}
			return nil
		})
	}
	approve := func(p files.Plan) error {
		if call.Tool == files.Read {
			return allowed(ctx, p)
		}
		if !sandbox.Within(p.Path, root) {
			return view.Outside(p.Path)
		}
		if _, err := await(ctx, s.limit, func(context.Context) (any, error) { return nil, s.writable(root, p) }); err != nil {
			return err
		}
		return allowed(ctx, p)
	}
	for attempt := 0; ; attempt++ {
		h, err := s.acquireHelper(kernel, level, root, c)
		if err != nil {
			if _, ok := errors.AsType[*refusal](err); !ok {
				err = &refusal{level, err}
			}
			return files.Reply{}, err
		}
		r, err := h.Do(ctx, s.limit, call, approve)
		s.releaseHelper(h)
		if errors.Is(err, files.ErrGone) && attempt < 3 { // it has just ended, or another call had it killed
			continue
		}
		if broken, ok := errors.AsType[*files.Broken](err); ok {
			return r, &refusal{level, broken}
		}
		if errors.Is(err, files.ErrNoAnswer) {
			return r, noAnswer(s.limit)
		}
		_, ours := errors.AsType[*proto.Error](err)
		if _, ok := errors.AsType[*files.Error](err); !ok && !ours && err != nil && ctx.Err() == nil {
			return r, &files.Error{Code: codeExec, Message: fmt.Sprintf("%v: look at the file before you try again", err)}
		}
		return r, err
	}
}

// writable is the error for a planned change of a protected file.
func (s *Service) writable(root string, p files.Plan) error {
	open := &s.host.open
	open.mu.Lock()
	defer open.mu.Unlock()
	set, err := s.host.protectedIn(root, true, open.sets, nil)
	if err != nil {
		return &files.Error{Code: codeSandbox, Message: err.Error()}
	}
	defer set.Close() // it is not in the list of open runs
	if why := set.Refusal(p.Path, (*sandbox.File)(p.File)); why != "" {
		return &files.Error{Code: files.Denied, Message: why}
	}
	return nil
}

const (
	// filesArg is the hidden first argument of a helper for files.
	filesArg = "--zino-exc-files"
	// filesArgs is the number of its arguments: the plan and the umask.
	filesArgs = 2
	// helperIdle is how long a helper waits for the next call of a batch, and
	// helperAge how long it accepts calls: its view of the host does not change.
	helperIdle = time.Second
	helperAge  = 10 * time.Second
	// helperFD is the connection with exc in a helper.
	helperFD = 3
)

// helperKey is what a helper depends on. The plan in it lacks the helper's own
// directory.
type helperKey struct {
	plan     string
	umask    string
	dev, ino uint64 // of the root, which may be another one under the same path
}

// helper is a process that carries out calls in a sandbox. One serves all calls of
// a batch, and those of other turns in the same root.
type helper struct {
	*files.Helper
	key   helperKey
	cmd   *exec.Cmd
	tmp   string
	born  time.Time
	users int
	idle  *time.Timer
}

// helpers are the running helpers.
type helpers struct {
	mu   sync.Mutex
	open map[helperKey]*helper
	ends sync.WaitGroup
}

// acquireHelper returns a helper for a level, which must be released.
func (s *Service) acquireHelper(kernel sandbox.Kernel, level proto.Level, root string, c client) (*helper, error) {
	// A network of its own would take longer to make than everything else.
	plan, err := s.plan(kernel, level, true, root, "", environ.Get(c.env, "PATH"))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	key := helperKey{plan: string(text)}
	if c.umask != nil {
		key.umask = strconv.Itoa(*c.umask)
	}
	if root != "" {
		var st unix.Stat_t
		if err := unix.Stat(root, &st); err != nil {
			return nil, &os.PathError{Op: "stat", Path: root, Err: err}
		}
		key.dev, key.ino = st.Dev, st.Ino
	}
	p := &s.helpers
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.open[key]
	if h == nil || h.Closed() || time.Since(h.born) > helperAge {
		if h, err = s.startHelper(key, plan); err != nil {
			return nil, err
		}
		if p.open == nil {
			p.open = map[helperKey]*helper{}
		}
		p.open[key] = h
	}
	if h.users++; h.idle != nil {
		h.idle.Stop()
	}
	return h, nil
}

func (s *Service) startHelper(key helperKey, plan *sandbox.Plan) (h *helper, err error) {
	h = &helper{key: key, born: time.Now()}
	if h.tmp, err = s.files.newDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.files.remove(h.tmp)
		}
	}()
	plan.Tmp = h.tmp
	home := h.tmp
	if plan.Namespaces {
		home = "/tmp"
	}
	if plan.Root == "" {
		plan.Dir = home
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "helper"), os.NewFile(uintptr(pair[1]), "exc")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	h.cmd = &exec.Cmd{
		Path:        "/proc/self/exe", // even if its file was replaced
		Args:        []string{"zino-exc-files", filesArg, string(text), key.umask},
		Env:         []string{"GOMAXPROCS=1", "TMPDIR=" + home},
		ExtraFiles:  []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // the signals of a terminal are for exc
	}
	plan.Attr(h.cmd.SysProcAttr)
	if err := h.cmd.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	h.Helper = files.NewHelper(conn.(*net.UnixConn))
	return h, nil
}

// releaseHelper ends the use of a helper. The helper is stopped when it was idle for
// some time, or at once if it was replaced or accepts no more calls.
func (s *Service) releaseHelper(h *helper) {
	p := &s.helpers
	p.mu.Lock()
	defer p.mu.Unlock()
	h.users--
	if h.Closed() {
		_ = h.cmd.Process.Kill() // fails only if it has ended
	}
	if h.users > 0 {
		return
	}
	if h.Closed() || p.open[h.key] != h || s.ctx.Err() != nil {
		s.endHelper(h)
		return
	}
	h.idle = time.AfterFunc(helperIdle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if h.users == 0 && p.open[h.key] == h {
			s.endHelper(h)
		}
	})
}

// endHelper stops a helper without users. helpers.mu is locked.
func (s *Service) endHelper(h *helper) {
	if s.helpers.open[h.key] == h {
		delete(s.helpers.open, h.key)
	}
	_ = h.Close()
	_ = h.cmd.Process.Kill()
	s.helpers.ends.Go(func() {
		_ = h.cmd.Wait() // it was killed
		if kept, err := os.ReadDir(h.tmp); err == nil && len(kept) > 0 {
			s.log.Warn("a change of a file was cut off: its earlier content is kept until exc ends", "dir", h.tmp)
			return
		}
		s.files.remove(h.tmp)
	})
}

// closeHelpers stops all helpers. It is called when no calls are left.
func (s *Service) closeHelpers() {
	s.helpers.mu.Lock()
	for _, h := range s.helpers.open {
		s.endHelper(h)
	}
	s.helpers.mu.Unlock()
	s.helpers.ends.Wait()
}

// serveFiles is the main function of a helper: args are its plan and umask.
func serveFiles(args []string) {
	runtime.LockOSThread() // rights are those of a thread
	conn := os.NewFile(helperFD, "exc")
	plan := new(sandbox.Plan)
	err := json.Unmarshal([]byte(args[0]), plan)
	if err == nil {
		err = plan.Enter()
	}
	if mask, none := strconv.Atoi(args[1]); none == nil {
		unix.Umask(mask)
	}
	if err == nil {
		err = plan.Restrict()
	}
	if err != nil {
		files.Refuse(conn, err)
		return
	}
	files.Serve(conn, files.Sandbox{Root: plan.Root, Write: plan.Writable, Read: plan.Read, Hidden: plan.Hidden})
}
