package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"zino/pkg/audit"
	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// checkPrograms checks that the services' programs and zino-chat are in zino's directory
// and have its version.
func (d *doctor) checkPrograms(ctx context.Context) []finding {
	exe, err := os.Executable()
	if err != nil {
		return []finding{failed("", "zino cannot find its own program: %v", err)}
	}
	dir := filepath.Dir(exe)
	names := append(slices.Clone(config.Services), "repl", "chat")
	found := make([]*finding, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			path := filepath.Join(dir, "zino-"+name)
			out, err := exec.CommandContext(ctx, path, "--version").Output()
			version := strings.TrimPrefix(strings.TrimSpace(string(out)), "zino-"+name+" ")
			switch {
			case errors.Is(err, fs.ErrNotExist):
				found[i] = new(failed(reinstall(dir), "%s is missing", path))
			case err != nil:
				found[i] = new(failed(reinstall(dir), "%s does not run: %v", path, err))
			case version != rpc.VersionText():
				found[i] = new(failed(reinstall(dir), "%s is version %s and zino is version %s", path, version, rpc.VersionText()))
			}
		})
	}
	wg.Wait()
	var list []finding
	for _, f := range found {
		if f != nil {
			list = append(list, *f)
		}
	}
	if list == nil {
		list = append(list, passed("%d programs in %s, version %s", len(names)+1, dir, rpc.VersionText()))
	}
	return list
}

// reinstall returns the command that installs the programs in dir again.
func reinstall(dir string) string {
	if dir == "/usr/bin" {
		return "sudo apt-get install --reinstall zino"
	}
	tree := filepath.Dir(dir)
	if _, err := os.Stat(filepath.Join(tree, config.FileName)); err == nil {
		return "make -C " + render.ShellWord(tree) + " build"
	}
	return "make install # in Zino's source tree"
}

// checkConfiguration lists the mistakes in the file that zino reads.
func (d *doctor) checkConfiguration(context.Context) []finding {
	path, err := d.ConfigFile()
	if err != nil {
		return []finding{failed("", "%v", err)}
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !d.Named() {
		return []finding{passed("there is no %s: the defaults hold", path)}
	}
	edit := "zino config edit"
	if d.File != "" {
		edit += " --config " + render.ShellWord(path)
	}
	problems, warnings, err := config.Problems(path)
	if err != nil {
		return []finding{failed("ls -l "+render.ShellWord(path), "%v", err)}
	}
	var list []finding
	for _, problem := range problems {
		list = append(list, failed(edit, "%s", problem))
	}
	for _, warning := range warnings {
		list = append(list, warned(edit, "%s", warning))
	}
	if list == nil {
		list = append(list, passed("%s has no mistakes", path))
	}
	return list
}

// checkDirectories checks that the user's files can be written, and that others
// cannot read them.
func (d *doctor) checkDirectories(context.Context) []finding {
	if d.base == "" {
		_, err := connect.BaseDir()
		return []finding{failed("export HOME=~", "there is no directory for your files: %v", err)}
	}
	var list []finding
	dirs := []string{d.base, d.cfg.Mem.DataDir, d.cfg.Rtr.DataDir, d.cfg.Exc.DataDir, d.cfg.Daemon.DataDir, cmp.Or(d.cfg.Mem.SessionsDir, d.cfg.Mem.DataDir), filepath.Join(d.base, "log")}
	if store, err := keys.OpenUser(os.Getenv); err == nil {
		dirs = append(dirs, store.Dir())
	}
	slices.Sort(dirs)
	bad := ""
	for _, dir := range slices.Compact(dirs) {
		if bad != "" && strings.HasPrefix(dir, bad+"/") {
			continue // the reason is the same
		}
		if err := writableOrNew(dir); err != nil {
			bad = dir
			list = append(list, failed("ls -ld "+render.ShellWord(dir)+" "+render.ShellWord(filepath.Dir(dir)), "%s cannot be written: %v; or set ZINO_HOME to another directory", dir, err))
			continue
		}
		info, err := os.Stat(dir)
		if parent, parentErr := os.Stat(d.base); err == nil && info.Mode().Perm()&0o077 != 0 && dir != d.base && (parentErr != nil || parent.Mode().Perm()&0o077 != 0) {
			list = append(list, warned("chmod 700 "+render.ShellWord(dir), "others can read %s (mode %04o)", dir, info.Mode().Perm()))
		}
	}
	if path, err := audit.PlainPath(); err == nil && bad == "" && !audit.Uses(d.cfg.Audit) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			f.Close()
		} else if !errors.Is(err, fs.ErrNotExist) {
			list = append(list, warned("ls -ld "+render.ShellWord(path), "nothing is recorded for the audit: %v", err))
		}
	}
	if list == nil {
		list = append(list, passed("your files in %s can be written, and only you can read them", d.base))
	}
	return list
}

// writableOrNew returns an error if files cannot be created in a directory, or if a
// missing directory cannot be created. It leaves no files.
func writableOrNew(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a directory", dir)
		case err == nil:
			return connect.Probe(dir)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) || dir == filepath.Dir(dir):
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// Free space on a file system below which a check warns or fails, in bytes.
const (
	scarceSpace = 500 << 20
	noSpace     = 20 << 20
)

// checkDisk checks the free space for the user's files and for temporary ones.
func (d *doctor) checkDisk(context.Context) []finding {
	var list []finding
	var free []string
	seen := map[syscall.Fsid]bool{}
	for _, dir := range []string{cmp.Or(d.base, os.TempDir()), d.cfg.Mem.DataDir, os.TempDir()} {
		var st syscall.Statfs_t
		err := syscall.Statfs(dir, &st)
		for err == syscall.ENOENT && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			err = syscall.Statfs(dir, &st)
		}
		left := int64(st.Bavail) * st.Bsize
		look := "df -h " + render.ShellWord(dir)
		switch {
		case err != nil:
			list = append(list, failed(look, "%s: %v", dir, err))
		case seen[st.Fsid]:
		case left < noSpace:
			list = append(list, failed(look, "the file system of %s is full: %s left", dir, text.Bytes(left)))
		case st.Files > 0 && st.Ffree == 0:
			list = append(list, failed("df -i "+render.ShellWord(dir), "the file system of %s has no room for more files", dir))
		case left < scarceSpace:
			list = append(list, warned(look, "%s left on the file system of %s", text.Bytes(left), dir))
		default:
			free = append(free, text.Bytes(left)+" in "+dir)
		}
		seen[st.Fsid] = true
	}
	if list == nil {
		list = append(list, passed("free: %s", strings.Join(free, ", ")))
	}
	return list
}

// checkSockets checks the directory of the user's own sockets.
func (d *doctor) checkSockets(context.Context) []finding {
	dir, err := connect.RuntimeDir()
	if err != nil {
		return []finding{failed("export XDG_RUNTIME_DIR=/run/user/$(id -u)", "%v", err)}
	}
	const longest = 107 // bytes of a socket's path
	switch runtime := os.Getenv("XDG_RUNTIME_DIR"); {
	case len(dir)+len("/daemon.sock") > longest:
		return []finding{failed("export XDG_RUNTIME_DIR=/run/user/$(id -u)", "the path of the sockets in %s is longer than %d bytes", dir, longest)}
	case runtime != "":
		if err := checkPrivate(runtime); err != nil {
			return []finding{warned("export XDG_RUNTIME_DIR=/run/user/$(id -u)", "XDG_RUNTIME_DIR: %v", err)}
		}
	}
	cfg := *d.cfg
	connect.DefaultSockets(&cfg, dir)
	var list []finding
	var stale []string
	answering := 0
	for _, name := range config.Services {
		socket := cfg.Socket(name)
		info, err := os.Lstat(socket)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			list = append(list, failed("ls -ld "+render.ShellWord(filepath.Dir(socket)), "%v", err))
		case info.Mode()&fs.ModeSocket == 0:
			list = append(list, failed("rm "+render.ShellWord(socket), "%s is not a socket", socket))
		case connect.Answers(socket):
			answering++
		default:
			stale = append(stale, render.ShellWord(socket))
		}
	}
	switch {
	case len(stale) > 0 && answering > 0:
		list = append(list, failed("zino status", "of the services in %s, %d answer and %d do not", dir, answering, len(stale)))
	case len(stale) > 0:
		list = append(list, warned("rm "+strings.Join(stale, " "), "nothing listens on %s in %s: left behind by services that were killed", text.Count(len(stale), "socket"), dir))
	case list != nil:
	case answering > 0:
		list = append(list, passed("%d services listen in %s", answering, dir))
	default:
		list = append(list, passed("no services of your own run: zino starts them for each run (to keep them running: zino up)"))
	}
	return list
}

// checkPrivate returns an error if other users can access a directory.
func checkPrivate(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	switch stat, ok := info.Sys().(*syscall.Stat_t); {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case ok && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("others can use %s (mode %04o)", dir, info.Mode().Perm())
	}
	return nil
}

// hostGroup is the group whose members may use the host's services.
const hostGroup = "zino"

// checkHost checks that the services of the host, if any, can be used.
func (d *doctor) checkHost(ctx context.Context) []finding {
	if _, err := os.Lstat(connect.HostSocket); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return []finding{d.notMember()}
		}
		return []finding{passed("no services are installed for the whole host")}
	}
	host := connect.At(connect.Place{Socket: connect.HostSocket})
	defer host.Close()
	err := host.Ping(ctx)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return []finding{d.notMember()}
	case err != nil:
		return []finding{failed("systemctl status 'zino-*'", "the host's daemon does not answer: %v", err)}
	case host.Version != rpc.Build:
		return []finding{warned("sudo systemctl restart 'zino-*.service'", "the host's daemon is version %s and zino is version %s", host.Version, rpc.Build)}
	}
	return []finding{passed("the host's daemon answers on %s", connect.HostSocket)}
}

// notMember is the finding that the caller may not use the host's services.
func (d *doctor) notMember() finding {
	group, err := user.LookupGroup(hostGroup)
	caller, userErr := user.Current()
	if err != nil || userErr != nil {
		return warned("ls -ld "+filepath.Dir(connect.HostSocket), "you may not use the host's services in %s", filepath.Dir(connect.HostSocket))
	}
	if ids, err := caller.GroupIds(); err == nil && slices.Contains(ids, group.Gid) {
		return warned("newgrp "+hostGroup, "you are in the group %s since after this login, so the host's services refuse you: log in again", hostGroup)
	}
	return warned("sudo usermod -aG "+hostGroup+" "+render.ShellWord(caller.Username), "you are not in the group %s, so the host's services refuse you; log in again after the change", hostGroup)
}
