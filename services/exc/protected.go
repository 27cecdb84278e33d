package exc

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/services/exc/sandbox"
)

// Protect names files and directories of Zino's own, such as its configuration
// and its tools: confined code may neither change nor create them below the
// directory that it works in. It must be called before the first request.
func (s *Service) Protect(paths ...string) {
	s.host.protected = append(s.host.protected, absolutes(paths)...)
}

// ProtectConfig protects all that a configuration names: itself, the parts of the
// prompt, the skills, and what Zino remembers. Directories that Zino writes to are protected
// once they exist: it makes them when it needs them. A file with a key is hidden. The
// folders of skills are readable at each level.
func (s *Service) ProtectConfig(c *config.Config) {
	s.Protect(c.File, c.Tools.Dir, c.Skills.Dir, c.Sys.Template, c.Sys.SessionTemplate, c.SystemPromptFile, c.API.KeyFile)
	base, err := keys.Base(os.Getenv)
	if err != nil {
		base = ""
	}
	for _, place := range c.Skills.Places(s.host.home, base) {
		s.host.skills = append(s.host.skills, absolutes([]string{place.Dir})...)
	}
	s.Protect(s.host.skills...)
	s.host.secrets = append(s.host.secrets, absolutes([]string{c.API.KeyFile})...)
	s.host.data = append(s.host.data, absolutes([]string{c.Mem.DataDir, c.Mem.SessionsDir, c.Rtr.DataDir})...)
	s.host.private = append(s.host.private, absolutes([]string{c.Daemon.DataDir})...)
}

// absolutes returns the absolute paths of those that are not empty.
func absolutes(paths []string) (list []string) {
	for _, path := range paths {
		if abs, err := filepath.Abs(path); err == nil && path != "" {
			list = append(list, abs)
		}
	}
	return list
}

// openRuns are the runs that have not ended, by what is protected in them. They
// are computed and checked one at a time: files made by one run must not count as
// the user's in another, or be put back after the first one's check.
type openRuns struct {
	mu   sync.Mutex
	sets []*sandbox.Protected
}

// protectedIn computes what is protected in a root.
func (h *host) protectedIn(root string, mounts bool, running []*sandbox.Protected, denied []string) (*sandbox.Protected, error) {
	own := slices.Concat(sandbox.Secrets([]string{root}, h.ownSecrets()...), denied, h.protected) // a secret that was moved would not be hidden
	return sandbox.Protect(sandbox.ProtectOptions{Root: root, Home: h.home, Own: own, Live: slices.Concat(h.data, h.private), Mounts: mounts}, running)
}

// protect computes what the run must not change, before it starts.
func (b *Sandbox) protect(root string) error {
	open := &b.s.host.open
	open.mu.Lock()
	defer open.mu.Unlock()
	set, err := b.s.host.protectedIn(root, b.plan.Namespaces, open.sets, slices.Concat(b.denied.Read, b.denied.Write))
	if err != nil {
		return err
	}
	b.protected = set
	open.sets = append(open.sets, set)
	if err := set.Unprotectable(); err != nil {
		return err
	}
	b.plan.Protected, b.plan.Pinned = set.ReadOnly(), set.Pinned()
	return set.ListOpen(b.tmp + recordSuffix)
}

// checkProtected compares what is protected with its earlier state when the run
// has ended.
func (b *Sandbox) checkProtected() {
	if b.protected == nil {
		return
	}
	open := &b.s.host.open
	open.mu.Lock()
	defer open.mu.Unlock()
	b.violations, b.gap = b.protected.Check(), b.protected.Gap()
	open.sets = slices.DeleteFunc(open.sets, func(s *sandbox.Protected) bool { return s == b.protected })
	for _, v := range b.violations {
		b.s.log.Warn(v.String(), "root", b.plan.Root)
	}
	if err := b.protected.Close(); err != nil {
		b.s.log.Warn("cannot remove a run from the list of open runs", "error", err)
	}
	b.protected = nil
}

// recordSuffix ends the name of the file beside a run's directory that lists the
// run as open.
const recordSuffix = ".open"

// checkOpenRuns checks what is protected in the runs that a killed exc has left
// open in its workspace.
func checkOpenRuns(workspace string, log *slog.Logger) {
	records, _ := filepath.Glob(filepath.Join(workspace, "*"+recordSuffix)) // the pattern is well-formed
	for _, file := range records {
		set, err := sandbox.ResumeRun(file)
		if err != nil {
			log.Warn("cannot check the protected files of a run that was cut off: look at them", "error", err)
			continue
		}
		for _, v := range set.Check() {
			log.Warn(v.String(), "root", set.Root())
		}
		if err := set.Close(); err != nil {
			log.Warn("cannot remove a run from the list of open runs", "error", err)
		}
	}
}
