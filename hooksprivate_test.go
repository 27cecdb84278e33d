package zino_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestHookOutlivesPrivateTurn checks that the services of a run end after the hooks of its
// notifications.
func TestHookOutlivesPrivateTurn(t *testing.T) {
	provider := fakellm.New(fakellm.Turn{Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo one"}`}}}, fakellm.Turn{Text: "Done."})
	defer provider.Close()
	dir := zinotest.Dir(t)
	zinotest.WriteFiles(t, dir, map[string]string{"home/.config/zino/config.toml": fmt.Sprintf(`provider = "anthropic"
anthropic_base_url = %q
[[hooks.Notification]]
command = "touch notified; sleep 1; touch ended"
`, provider.Host)})
	cmd := program([]string{"HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + dir, "ANTHROPIC_API_KEY=test"}, "zino", "exec", "--sandbox", "off", "--mode", "ask", "--json", "--input", "json", "-p", "begin")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	zinotest.Must(t, err)
	out, err := cmd.StdoutPipe()
	zinotest.Must(t, err)
	var stderr zinotest.Buffer
	cmd.Stderr = &stderr
	zinotest.Must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var p struct{ Type, ID string }
		zinotest.Must(t, json.Unmarshal(lines.Bytes(), &p))
		if p.Type == proto.TypeApprovalRequested {
			zinotest.Eventually(t, "the hook runs", func() bool { return exists(filepath.Join(dir, "notified")) })
			_, err := fmt.Fprintf(in, `{"type":"approve","id":%q,"answer":"once"}`+"\n", p.ID)
			zinotest.Must(t, err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	zinotest.Equal(t, "the hook has ended", exists(filepath.Join(dir, "ended")), true)
	if left := zinotest.Processes(dir); len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, "\n"))
	}
}
