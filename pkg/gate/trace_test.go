package gate

import (
	"bufio"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/zinotest"
)

// allowAll has rules that allow every part that a rule can allow.
func allowAll(t testing.TB) *Policy {
	return newPolicy(t, "", rule("allow", `command = ["*"]`)+rule("allow", `tool = ["write", "read"]`))
}

func TestLines(t *testing.T) {
	p, root := allowAll(t), realTemp(t)
	for want, lines := range map[Action][]string{Allow: allowedLines, Ask: askedLines} {
		for _, line := range lines {
			if d := p.Decide(&Call{Tool: "bash", Command: line, Root: root, Mode: Asks}); d.Action != want {
				t.Errorf("%q: %+v, want %v", line, d, want)
			}
		}
	}
	if n := len(commandLines); n < 200 {
		t.Errorf("%d lines", n)
	}
}

// TestTraced runs the lines that rules allow in the shells of the host, and records each
// execve: no program may run that the parser did not list.
func TestTraced(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		zinotest.NotTested(t, "the programs that a command line runs: %v", err)
	}
	programs := stubs(t)
	shells := [][]string{{"sh", "-c"}, {"bash", "-c"}, {"bash", "--posix", "-c"}}
	var lines []string
	p := allowAll(t)
	for _, line := range commandLines {
		if d := p.Decide(&Call{Tool: "bash", Command: line, Root: "/", Mode: Asks}); d.Action == Allow {
			lines = append(lines, line)
		}
	}
	ran := 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	places := make(chan bool, 4)
	for _, line := range lines {
		parts := partsOf(line, defaultEnv)
		for _, shell := range shells {
			places <- true
			wg.Go(func() {
				defer func() { <-places }()
				for _, argv := range traced(t, programs, shell, line) {
					mu.Lock()
					ran++
					mu.Unlock()
					if !slices.ContainsFunc(parts, func(p part) bool { return runs(p, argv) }) {
						t.Errorf("%s of %q ran %q, which was not listed in %+v", shell, line, argv, parts)
					}
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d lines in %d shells ran %d programs", len(lines), len(shells), ran)
	if ran < 2*len(lines) {
		t.Error("too few programs were recorded")
	}
}

// stubs returns a directory with the programs of the lines, of which only those that run
// others are real.
func stubs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"git", "ls", "cat", "rm", "env", "nice", "nohup", "timeout", "stdbuf", "xargs", "find", "sh", "bash", "dash", "echo", "true"} {
		target := name
		if slices.Contains([]string{"git", "ls", "cat", "rm"}, name) {
			target = "true"
		}
		path, err := exec.LookPath(target)
		zinotest.Must(t, err)
		zinotest.Must(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	return dir
}

// traced runs a line, and returns the words of each program that was run.
func traced(t *testing.T, programs string, shell []string, line string) (list [][]string) {
	dir, err := os.MkdirTemp(programs, "run-")
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "sub"), 0o700)
	}
	for _, name := range []string{"in", "script", "x"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), nil, 0o700)
		}
	}
	for _, name := range []string{"tool", "sub/tool"} {
		if err == nil {
			err = os.Symlink(filepath.Join(programs, "git"), filepath.Join(dir, name))
		}
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	record := filepath.Join(dir, "trace")
	args := slices.Concat([]string{"-f", "-xx", "-s", "65536", "-e", "trace=execve,execveat", "-o", record}, shell, []string{line})
	cmd := exec.Command("strace", args...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + programs, "HOME=" + dir, "x=value"}
	cmd.Run() // the status is that of the line
	f, err := os.Open(record)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		_, rest, ok := strings.Cut(s.Text(), " execve(")
		if !ok {
			continue
		}
		_, rest, _ = strings.Cut(rest, "[")
		words, _, _ := strings.Cut(rest, "]")
		var argv []string
		for w := range strings.SplitSeq(words, ", ") {
			b, err := hex.DecodeString(strings.ReplaceAll(strings.Trim(w, `"`), `\x`, ""))
			if err != nil {
				t.Errorf("strace printed %q", s.Text())
			}
			argv = append(argv, string(b))
		}
		list = append(list, argv)
	}
	if len(list) == 0 {
		t.Errorf("nothing was recorded of %q", line)
		return nil
	}
	return list[1:] // without the shell itself
}

// runs reports whether a part is the program with these words.
func runs(p part, argv []string) bool {
	i := 0
	for _, w := range p.words {
		switch {
		case !w.known:
			return true // any number of words
		case i >= len(argv) || w.text != argv[i] && !(i == 0 && filepath.Base(w.text) == argv[0]):
			return false
		}
		i++
	}
	return len(p.words) > 0 && (p.open || i == len(argv))
}
