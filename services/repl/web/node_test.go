package web

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestScript runs the tests of the page script in Node.js, in contexts that have
// what the script uses of a browser.
func TestScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zino.js")
	text := body + `})({"script":"http://127.0.0.1:8302/zino.js","socket":"ws://127.0.0.1:8302/zino/ws","token":"first"})` + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob("testdata/*.test.mjs")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", append([]string{"--test"}, tests...)...)
	node.Env = append(os.Environ(), "ZINO_SCRIPT="+file)
	if out, err := node.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
