package zinotest_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{
		"fill": fillDisk,
		"count": func([]string) error {
			for i := 0; ; i++ {
				if _, err := fmt.Println(i); err != nil {
					return err
				}
			}
		},
		"stop": func([]string) error {
			fmt.Fprintln(os.Stderr, "ready")
			select {}
		},
		"fail": func(args []string) error { return fmt.Errorf("no %s", args[0]) },
	})
	m.Run()
}

func fillDisk(args []string) error {
	if err := zinotest.Mount(args[0], "size=64k", 0); err != nil {
		return err
	}
	small, large := filepath.Join(args[0], "small"), filepath.Join(args[0], "large")
	if err := os.WriteFile(small, make([]byte, 1000), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(large, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("writing 1 MiB: %w", err)
	}
	if err := zinotest.Remount(args[0], syscall.MS_RDONLY); err != nil {
		return err
	}
	if err := os.Remove(small); !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("removing from a read-only disk: %w", err)
	}
	return nil
}

func TestSmallDisk(t *testing.T) {
	dir := t.TempDir()
	zinotest.SmallDisk(t, zinotest.Command(t, "fill", dir))
	zinotest.Equal(t, "files outside of the namespace", zinotest.Names(t, dir), "")
}

func TestProcess(t *testing.T) {
	p := zinotest.Start(t, zinotest.Command(t, "stop"))
	p.WaitFor("ready")
	p.Signal(syscall.SIGTERM)
	zinotest.Equal(t, "status after SIGTERM", p.Exit(), -1)
	p = zinotest.Start(t, zinotest.Command(t, "fail", "luck"))
	zinotest.Equal(t, "status after an error", p.Exit(), 1)
	zinotest.Equal(t, "standard error", p.Err.String(), "no luck\n")
	zinotest.Equal(t, "gone", zinotest.Gone(p.Process.Pid), true)
	zinotest.Equal(t, "gone", zinotest.Gone(os.Getpid()), false)
	p = zinotest.Start(t, exec.Command("sh", "-c", "echo out; echo err >&2"))
	<-p.Done()
	zinotest.Equal(t, "both", p.Out.String()+p.Err.String(), "out\nerr\n")
}

func TestKillAfter(t *testing.T) {
	lines := zinotest.KillAfter(t, zinotest.Command(t, "count"), 3)
	if len(lines) < 3 || lines[2] != "2" {
		t.Errorf("got %q", lines)
	}
}

func TestAlone(t *testing.T) {
	if zinotest.Alone(t) {
		return
	}
	lift := zinotest.LimitFileSize(t, 10)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 20), 0o600); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("a file above the limit: %v", err)
	}
	lift()
	zinotest.Write(t, path, "a text beyond the limit")
}

func TestFiles(t *testing.T) {
	dir := zinotest.Dir(t)
	path := filepath.Join(dir, "a", "b")
	zinotest.WriteFiles(t, dir, map[string]string{"a/b": "one"})
	zinotest.Append(t, path, " two")
	zinotest.Equal(t, "the file", zinotest.Read(t, path), "one two")
	zinotest.Equal(t, "the names", zinotest.Names(t, dir), "a")
	zinotest.Unprivileged(t, func() {
		if _, err := os.ReadDir("/root"); os.Geteuid() == 0 && err == nil {
			t.Error("root's rights are left")
		}
	})
	if os.Geteuid() == 0 {
		zinotest.AsUser(t, zinotest.Nobody, func() {
			if _, err := os.ReadDir(dir); !errors.Is(err, os.ErrPermission) {
				t.Errorf("another user reads the directory: %v", err)
			}
		})
	}
}

func TestBuffer(t *testing.T) {
	log := new(zinotest.Buffer)
	go log.Logger().Debug("listening", "socket", "s")
	log.WaitFor(t, "listening", "socket=s")
	zinotest.Equal(t, "lines", log.Count("\n"), 1)
	log.Reset()
	zinotest.Equal(t, "after Reset", log.String(), "")
	c := make(chan int, 1)
	c <- 7
	zinotest.Equal(t, "received", zinotest.Receive(t, "a number", c), 7)
	zinotest.Error(t, fmt.Errorf("f: %w", os.ErrNotExist), os.ErrNotExist, "f: ")
}

func TestTerminal(t *testing.T) {
	x := zinotest.NewTerminal(t)
	zinotest.Equal(t, "cooked", x.Cooked(), true)
	x.Resize(10)
	x.Start(exec.Command("sh", "-c", `stty size; read -r line; stty raw; printf '\033[31m%s\033[0m\rX\033[K' "$line"; printf '1\r234567890123'`))
	x.Shows("24 10\r\n")
	x.Type("typed\n")
	zinotest.Equal(t, "status", x.Exit(), 0)
	x.Shows("0123")
	zinotest.Equal(t, "cooked", x.Cooked(), false)
	zinotest.Equal(t, "rows", strings.Join(x.Rows(10), "|"), "24 10|typed|2345678901|23")
}
