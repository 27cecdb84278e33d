package zino_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
)

// TestChatReader checks the bytes that a screen reader follows: the cursor never goes above
// the row of the editor, nothing is drawn again without a change, and each state is a
// line. The lines themselves are compared by TestChatTurns.
func TestChatReader(t *testing.T) {
	t.Parallel()
	d := fakedaemon.New(t)
	d.Remove("approve", "approvals")
	home := zinotest.Dir(t)
	x := zinotest.NewTerminal(t)
	x.Resize(80)
	cmd := exec.Command(filepath.Join(bin, "zino"), "--socket", d.Socket)
	cmd.Dir = home
	cmd.Env = append(zinotest.CoverEnv(), "HOME="+home, "XDG_RUNTIME_DIR="+home, "TMPDIR="+home, "PATH="+os.Getenv("PATH"), "TERM=xterm", "LC_ALL=C.UTF-8", "ZINO_SCREEN_READER=1")
	x.Start(cmd)
	x.Shows("/help")
	x.Type("look\r")
	turn := d.Turn()
	turn.Send(`{"type":"notice","kind":"retry","text":"HTTP 429: slow down; asking again in 8s (1 of 4)","wait_ms":8000,"provider":"anthropic"}`)
	call := toolPackets("c1", "bash", `{"command":"make"}`, `"result":{"ok":true,"data":{"stdout":"no rule\n","stderr":"","exit_code":3,"timed_out":false}}`)
	turn.Send(call[0], call[1])
	x.Shows("Tool bash started: make\r\n")
	before := len(x.Written.String())
	for i := range 3 { // output changes nothing: it is not read aloud
		turn.Send(fmt.Sprintf(`{"type":"tool_output","id":"c1","text":"line %d\n"}`, i))
	}
	turn.Send(call[2])
	x.Shows("no rule\r\n")
	if frames := strings.Count(x.Written.String()[before:], "\x1b[?2026h"); frames != 1 {
		t.Errorf("%d frames for one line", frames)
	}
	turn.Answer("It has\n\n- no Makefile\n- no rule\n")
	turn.End("done")
	x.Shows("Done.\r\n")
	x.Type("\x04")
	zinotest.Equal(t, "status", x.Exit(), 0)
	written := x.Written.String()
	zinotest.Contains(t, "the lines", written, "Working.\r\n", "Waiting for anthropic, HTTP 429, retry in 8s.\r\n", "Tool bash failed, exit 3.\r\n", "1. no Makefile\r\n2. no rule\r\n")
	if moved := regexp.MustCompile(`\x1b\[\d*(A|B|E|F|d|;?\d*H)`).FindString(written); moved != "" {
		t.Errorf("the cursor leaves the row of the editor: %q", moved)
	}
	if drawn := regexp.MustCompile(`[✓✗…│─]|Esc stops`).FindString(written); drawn != "" {
		t.Errorf("%q is drawn", drawn)
	}
}
