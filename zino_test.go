// Package zino_test holds what concerns the whole tree: end-to-end scripts on
// the real binaries (testdata/script), and the rules of imports.
package zino_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// bin is where the binaries under test are built, once for all tests.
var bin string

func TestMain(m *testing.M) {
	if dir := os.Getenv(diskEnv); dir != "" {
		if err := useDisk(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "zb")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = filepath.Join(dir, "bin")
	if out, err := exec.Command("go", "build", "-o", bin+"/", "./services/...", "./pkg/fakellm/fakellm").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the binaries do not build: %v\n%s", err, out)
		return 1
	}
	share := filepath.Join(dir, "share", "zino")
	for _, name := range []string{"tools", "SYSTEM.md", "SESSION.md"} {
		if out, err := exec.Command("sh", "-c", `mkdir -p "$2" && cp -r "$1" "$2"`, "sh", name, share).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s cannot be copied: %v\n%s", name, err, out)
			return 1
		}
	}
	status := m.Run()
	if left := processes(bin); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes were left behind: %v\n", left)
		return 1
	}
	return status
}

// TestScripts runs every script of testdata/script: prose, a command, and what
// is expected of it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"provider": provider, "requests": requests, "gate": gate,
			"waitfor": waitFor, "service": signalService,
		},
		RequireExplicitExec: true,
	})
}

// processes lists the command lines of live processes whose text holds part.
func processes(part string) (list []string) {
	for pid, line := range commandLines() {
		if strings.Contains(line, part) {
			list = append(list, fmt.Sprintf("%d: %s", pid, line))
		}
	}
	return list
}
