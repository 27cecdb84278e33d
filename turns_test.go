package zino_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// TestTwoTerminals has two terminals on one turn of services that keep running, and
// closes the one that started it: the other shows the turn to its end.
func TestTwoTerminals(t *testing.T) {
	provider := fakellm.New(
		fakellm.Turn{Match: "long task", Text: "I begin. 日本語", Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo '日本語 \u001b[31mred'; until test -e go; do sleep 0.05; done"}`}}},
		fakellm.Turn{Text: "It is done.", Size: 3},
	)
	defer provider.Close()
	s := zinotest.NewScreen(t, bin)
	env := []string{"HOME=" + filepath.Join(s.Dir, "home"), "XDG_RUNTIME_DIR=" + filepath.Join(s.Dir, "run"), "TERM=screen", "LC_ALL=C.UTF-8", "PS1=$ "}
	up := program(append(env, "ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL="+provider.Host), "zino", "up")
	up.Dir = s.Dir
	services := zinotest.Start(t, up)
	services.WaitFor("Ctrl-C stops")

	s.Enter("clear; zino exec 'a long task'")
	s.Shows("bash command", "red$")
	env = append(env, "PATH="+bin+":"+os.Getenv("PATH"))
	s.Tmux(append(append([]string{"new-window", "-c", filepath.Join(s.Dir, "work"), "env", "-i"}, append(env, zinotest.CoverEnv()...)...), "sh")...)
	s.Shows("", shell)
	s.Enter("clear; zino ps; zino attach")
	s.Shows("> a long task", `bash, \d+ tokens$`)
	s.Tmux("send-keys", "C-c")
	s.Shows("", "Enter to continue: ?$")
	s.Tmux("kill-window", "-t", ":0")
	s.Tmux("send-keys", "Enter")
	zinotest.Write(t, filepath.Join(s.Dir, "work", "go"), "")
	s.Shows("It is done.", shell)
	s.Enter("zino ps")
	s.Shows("No turns are running.", shell)
	text := regexp.MustCompile(`(?m)^[0-9a-f]{8}  t-[a-z2-7]{12}  running  \d+s .*$`).ReplaceAllStringFunc(s.Text(), func(row string) string {
		if n := len([]rune(row)); n > 80 || !strings.Contains(row, "bash: echo") {
			t.Errorf("%d characters: %s", n, row)
		}
		return "ROW OF THE TURN"
	})
	golden := filepath.Join("testdata", "screens", "attach.txt")
	text = regexp.MustCompile(`\d+ tokens in, \d+ out(, \$\d\.\d+)?`).ReplaceAllString(regexp.MustCompile(`\b\d+\.\d+s\b`).ReplaceAllString(text, "0.00s"), "N tokens in, N out") + "\n"
	if *update {
		zinotest.Must(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	zinotest.Equal(t, "the screen", text, zinotest.Read(t, golden))
	services.Signal(syscall.SIGINT)
	zinotest.Equal(t, "status of zino up", services.Exit(), 0)
}
