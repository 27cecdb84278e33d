package rtr

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// roleEnv has the test binary act as one of two processes of an ordinary user:
// one that holds a secret in its environment, or one that wants to read it.
const roleEnv = "ZINO_TEST_MEMORY_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := act(role); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// ordinary is the uid and gid that root changes to.
const ordinary = 65534

// act becomes an ordinary user and plays a role. A change of uid makes a process
// not dumpable, which is taken back.
func act(role string) error {
	if os.Getuid() == 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setgid(ordinary); err != nil {
			return err
		}
		if err := syscall.Setuid(ordinary); err != nil {
			return err
		}
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 1, 0); errno != 0 {
			return errno
		}
	}
	if path, ok := strings.CutPrefix(role, "read "); ok {
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), "THE_SECRET") {
			err = fmt.Errorf("nothing in %s", path)
		}
		return err
	}
	if role == "protected" {
		if err := ProtectMemory(); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin) // until the test closes the pipe
	return err
}

// TestProtectMemory: another process of the same uid reads the environment of a
// process that is not protected, and not of one that is.
func TestProtectMemory(t *testing.T) {
	for role, readable := range map[string]bool{"open": true, "protected": false} {
		holder := exec.Command("/proc/self/exe")
		holder.Env = []string{roleEnv + "=" + role, "THE_SECRET=1"}
		holder.Stderr = os.Stderr
		in, err := holder.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := holder.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("%s: %q, %v", role, line, err)
		}
		reader := exec.Command("/proc/self/exe")
		reader.Env = []string{fmt.Sprintf("%s=read /proc/%d/environ", roleEnv, holder.Process.Pid)}
		said, err := reader.CombinedOutput()
		if denied := strings.Contains(string(said), "permission denied"); readable != (err == nil) || !readable && !denied {
			t.Errorf("%s: %s, %v", role, said, err)
		}
		in.Close()
		if err := holder.Wait(); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
}
