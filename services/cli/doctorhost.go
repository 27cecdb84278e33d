package cli

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
	"strconv"
	"strings"
	"sync"
	"syscall"

	"zino/pkg/config"
	keystore "zino/pkg/keys" // the type keys is the keyboard
	"zino/pkg/rpc"
)

// checkPrograms looks for the services' programs beside zino, all of one version.
func (d *doctor) checkPrograms(ctx context.Context) []finding {
	exe, err := os.Executable()
	if err != nil {
		return []finding{failed("", "zino cannot find its own program: %v", err)}
	}
	dir := filepath.Dir(exe)
	names := append(slices.Clone(config.Services), "repl")
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

// reinstall is the command that makes the programs in dir anew.
func reinstall(dir string) string {
	if dir == "/usr/bin" {
		return "sudo apt-get install --reinstall zino"
	}
	tree := filepath.Dir(dir)
	if _, err := os.Stat(filepath.Join(tree, config.FileName)); err == nil {
		return "make -C " + shellWord(tree) + " build"
	}
	return "make install # in Zino's source tree"
}

// shellWord quotes a word for a shell, if that is needed.
func shellWord(word string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%"
	if word != "" && strings.Trim(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// checkConfiguration lists the mistakes in the file that zino reads.
func (d *doctor) checkConfiguration(context.Context) []finding {
	path, err := d.ownFile()
	if err != nil {
		return []finding{failed("", "%v", err)}
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !d.named() {
		return []finding{passed("there is no %s: the defaults hold", path)}
	}
	edit := "zino config edit"
	if d.config != "" {
		edit += " --config " + shellWord(path)
	}
	problems, warnings, err := config.Problems(path)
	if err != nil {
		return []finding{failed("ls -l "+shellWord(path), "%v", err)}
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

// checkDirectories looks whether what must last can be written, and whether
// others can read it.
func (d *doctor) checkDirectories(context.Context) []finding {
	if d.base == "" {
		_, err := baseDir()
		return []finding{failed("export HOME=~", "there is no directory for your files: %v", err)}
	}
	var list []finding
	dirs := []string{d.base, d.cfg.Mem.DataDir, d.cfg.Rtr.DataDir, cmp.Or(d.cfg.Mem.SessionsDir, d.cfg.Mem.DataDir), filepath.Join(d.base, "log")}
	if store, err := keystore.OpenUser(os.Getenv); err == nil {
		dirs = append(dirs, store.Dir())
	}
	slices.Sort(dirs)
	bad := ""
	for _, dir := range slices.Compact(dirs) {
		if bad != "" && strings.HasPrefix(dir, bad+"/") {
			continue // for the same reason
		}
		if err := writableOrNew(dir); err != nil {
			bad = dir
			list = append(list, failed("ls -ld "+shellWord(dir)+" "+shellWord(filepath.Dir(dir)), "%s cannot be written: %v; or set ZINO_HOME to another directory", dir, err))
			continue
		}
		info, err := os.Stat(dir)
		if parent, parentErr := os.Stat(d.base); err == nil && info.Mode().Perm()&0o077 != 0 && dir != d.base && (parentErr != nil || parent.Mode().Perm()&0o077 != 0) {
			list = append(list, warned("chmod 700 "+shellWord(dir), "others can read %s (mode %04o)", dir, info.Mode().Perm()))
		}
	}
	if list == nil {
		list = append(list, passed("your files in %s can be written, and only you can read them", d.base))
	}
	return list
}

// writableOrNew reports why files cannot be made in a directory, or the directory
// itself where it does not exist. Nothing is left behind.
func writableOrNew(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a directory", dir)
		case err == nil:
			return probe(dir)
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

// checkDisk looks at the file systems of the user's files and of temporary ones.
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
		look := "df -h " + shellWord(dir)
		switch {
		case err != nil:
			list = append(list, failed(look, "%s: %v", dir, err))
		case seen[st.Fsid]:
		case left < noSpace:
			list = append(list, failed(look, "the file system of %s is full: %s left", dir, bytesText(left)))
		case st.Files > 0 && st.Ffree == 0:
			list = append(list, failed("df -i "+shellWord(dir), "the file system of %s has no room for more files", dir))
		case left < scarceSpace:
			list = append(list, warned(look, "%s left on the file system of %s", bytesText(left), dir))
		default:
			free = append(free, bytesText(left)+" in "+dir)
		}
		seen[st.Fsid] = true
	}
	if list == nil {
		list = append(list, passed("free: %s", strings.Join(free, ", ")))
	}
	return list
}

func bytesText(n int64) string {
	if n >= 1<<30 {
		return strconv.FormatInt(n>>30, 10) + " GiB"
	}
	return strconv.FormatInt(n>>20, 10) + " MiB"
}

// checkSockets looks at the directory of the user's own sockets.
func (d *doctor) checkSockets(context.Context) []finding {
	dir, err := runtimeDir()
	if err != nil {
		return []finding{failed("export XDG_RUNTIME_DIR=/run/user/$(id -u)", "%v", err)}
	}
	const longest = 107 // bytes of a socket's path
	switch runtime := os.Getenv("XDG_RUNTIME_DIR"); {
	case len(dir)+len("/daemon.sock") > longest:
		return []finding{failed("export XDG_RUNTIME_DIR=/run/user/$(id -u)", "the path of the sockets in %s is longer than %d bytes", dir, longest)}
	case runtime != "":
		if err := ownDirectory(runtime); err != nil {
			return []finding{warned("export XDG_RUNTIME_DIR=/run/user/$(id -u)", "XDG_RUNTIME_DIR: %v", err)}
		}
	}
	cfg := *d.cfg
	settleSockets(&cfg, dir)
	var list []finding
	var stale []string
	answering := 0
	for _, name := range config.Services {
		socket := cfg.Socket(name)
		info, err := os.Lstat(socket)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			list = append(list, failed("ls -ld "+shellWord(filepath.Dir(socket)), "%v", err))
		case info.Mode()&fs.ModeSocket == 0:
			list = append(list, failed("rm "+shellWord(socket), "%s is not a socket", socket))
		case answers(socket):
			answering++
		default:
			stale = append(stale, shellWord(socket))
		}
	}
	switch {
	case len(stale) > 0 && answering > 0:
		list = append(list, failed("zino status", "of the services in %s, %d answer and %d do not", dir, answering, len(stale)))
	case len(stale) > 0:
		list = append(list, warned("rm "+strings.Join(stale, " "), "nothing listens on %s in %s: left behind by services that were killed", plural(len(stale), "socket"), dir))
	case list != nil:
	case answering > 0:
		list = append(list, passed("%d services listen in %s", answering, dir))
	default:
		list = append(list, passed("no services of your own run: zino starts them for each run (to keep them running: zino up)"))
	}
	return list
}

// ownDirectory reports why a directory is not the caller's alone.
func ownDirectory(dir string) error {
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

// checkHost looks whether the services of the host, if there are any, may be used.
func (d *doctor) checkHost(ctx context.Context) []finding {
	if _, err := os.Lstat(hostSocket); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return []finding{d.notMember()}
		}
		return []finding{passed("no services are installed for the whole host")}
	}
	host := at(place{socket: hostSocket})
	defer host.close()
	err := host.greet(ctx)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return []finding{d.notMember()}
	case err != nil:
		return []finding{failed("systemctl status 'zino-*'", "the host's daemon does not answer: %v", err)}
	case host.version != rpc.Build:
		return []finding{warned("sudo systemctl restart 'zino-*.service'", "the host's daemon is version %s and zino is version %s", host.version, rpc.Build)}
	}
	return []finding{passed("the host's daemon answers on %s", hostSocket)}
}

// notMember says why the caller may not use the host's services.
func (d *doctor) notMember() finding {
	group, err := user.LookupGroup(hostGroup)
	caller, userErr := user.Current()
	if err != nil || userErr != nil {
		return warned("ls -ld "+filepath.Dir(hostSocket), "you may not use the host's services in %s", filepath.Dir(hostSocket))
	}
	if ids, err := caller.GroupIds(); err == nil && slices.Contains(ids, group.Gid) {
		return warned("newgrp "+hostGroup, "you are in the group %s since after this login, so the host's services refuse you: log in again", hostGroup)
	}
	return warned("sudo usermod -aG "+hostGroup+" "+shellWord(caller.Username), "you are not in the group %s, so the host's services refuse you; log in again after the change", hostGroup)
}
