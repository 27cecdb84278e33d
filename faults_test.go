package zino_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

var applyFaults = flag.Bool("faults", false, "apply the faults of testdata/faults.txt, and check that the tests fail")

// fault is a small change of one file, and the tests that must fail with it.
type fault struct{ name, file, old, new, test string }

// TestFaults checks that the old text of every listed fault occurs once in its file.
// With -faults it also applies each one, with go build -overlay, and runs its tests.
func TestFaults(t *testing.T) {
	var list []fault
	for line := range strings.Lines(zinotest.Read(t, "testdata/faults.txt")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "fault":
			list = append(list, fault{name: value})
		case "file":
			list[len(list)-1].file = value
		case "old":
			list[len(list)-1].old = value
		case "new":
			list[len(list)-1].new = value
		case "test":
			list[len(list)-1].test = value
		}
	}
	if len(list) < 20 {
		t.Fatalf("%d faults are listed, want 20 or more", len(list))
	}
	for _, f := range list {
		t.Run(f.name, func(t *testing.T) {
			source, err := os.ReadFile(f.file)
			if err != nil {
				t.Fatalf("%v: update the fault for the file that does this now", err)
			}
			if n := strings.Count(string(source), f.old); n != 1 {
				t.Fatalf("%q occurs %d times in %s, want once: update the fault for the code that does this now", f.old, n, f.file)
			}
			for i, word := range strings.Fields(f.test) {
				if word != "." && !strings.HasPrefix(word, "./") && word != "-run" && strings.Fields(f.test)[i-1] != "-run" {
					t.Fatalf("%q is not a package, and not behind -run", word)
				}
			}
			if !*applyFaults {
				return
			}
			dir, err := filepath.Abs(".")
			zinotest.Must(t, err)
			faulty, overlayFile := filepath.Join(t.TempDir(), "faulty.go"), filepath.Join(t.TempDir(), "overlay.json")
			zinotest.Write(t, faulty, strings.Replace(string(source), f.old, f.new, 1))
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(dir, f.file): faulty}})
			zinotest.Must(t, err)
			zinotest.Write(t, overlayFile, string(overlay))
			// Tests that build binaries build them with the fault, too.
			env := append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlayFile)
			arguments := strings.Fields(f.test)
			build := exec.Command("go", "build", "./...")
			build.Env = env
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("the fault does not compile: %v\n%s", err, out)
			}
			test := exec.Command("go", append([]string{"test", "-count=1", "-failfast"}, arguments...)...)
			test.Env = env
			out, err := test.CombinedOutput()
			if err == nil {
				t.Errorf("no test of %s fails", f.test)
			} else if bytes.Contains(out, []byte("setup failed]")) || bytes.Contains(out, []byte("build failed]")) {
				t.Errorf("the tests of %s do not run: %s", f.test, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "--- FAIL") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}
