package measure

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestCommit: a run of a changed tree is marked, unless only a measuring command's own
// page was written.
func TestCommit(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(file, text string) { zinotest.Must(t, os.WriteFile(file, []byte(text), 0o644)) }
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e@localhost"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	zinotest.Must(t, os.MkdirAll("docs/performance", 0o755))
	zinotest.Equal(t, "commit outside of a checkout", commit(), "unknown")
	git("init", "-q")
	write("docs/performance.md", "old")
	write("main.go", "old")
	git("add", ".")
	git("commit", "-qm", "first")
	head := git("rev-parse", "--short=12", "HEAD")
	zinotest.Equal(t, "commit", commit(), head)

	write("docs/performance.md", "new")
	write("docs/performance/plot.svg", "new")
	zinotest.Must(t, os.Mkdir("bench", 0o755))
	t.Chdir("bench")
	zinotest.Equal(t, "commit with measurements", commit(), head)
	write("../main.go", "new")
	zinotest.Equal(t, "commit with a change", commit(), head+"-dirty")
	if line := Run(); !strings.Contains(line, "commit "+head+"-dirty: ") {
		t.Error(line)
	}
}
