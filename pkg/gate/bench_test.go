package gate

import (
	"fmt"
	"strings"
	"testing"
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
