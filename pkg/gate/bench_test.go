package gate

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/proto"
)

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		partsOf(`git diff --stat "main" && go test ./... 2>/dev/null | head -50`, defaultEnv)
	}
}

func BenchmarkDecide(b *testing.B) {
	var rules strings.Builder
	for i := range 100 {
		rules.WriteString(rule("allow", fmt.Sprintf(`tool = ["bash"]; command = ["tool%d *"]`, i)))
	}
	p := newPolicy(b, rules.String(), rule("allow", `command = ["git diff *", "go test *", "head *"]`))
	c := &Call{Tool: "bash", Command: `git diff --stat "main" && go test ./... 2>/dev/null | head -50`, Root: "/tmp", Mode: Asks}
	for b.Loop() {
		p.Decide(c)
	}
}

// BenchmarkGranted decides a call with the token of its approval.
func BenchmarkGranted(b *testing.B) {
	dir := b.TempDir()
	v := NewVerifier(filepath.Join(dir, "daemon.sock"), filepath.Join(dir, "none"))
	s, err := OpenSigner(dir, v.paths[0])
	if err != nil {
		b.Fatal(err)
	}
	g := &Guard{policy: newPolicy(b, "", ""), verifier: v, users: map[int]person{}}
	r := asked(nil)
	n := Needed(g.Permit(r))
	r.Grant, err = s.SignGrant(GrantToken{Approval: "ap-1", Key: r.Key, Digest: n.Digest, Sandbox: proto.LevelOff, Network: true}, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := g.Permit(r); err != nil {
			b.Fatal(err)
		}
	}
}
