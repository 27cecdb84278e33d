package rpc_test

import (
	"os"
	"strings"
	"testing"

	"zino/pkg/rpc"
)

func TestVersionIsInTheChangelog(t *testing.T) {
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if heading := "\n## [" + rpc.Version + "]"; !strings.Contains(string(changes), heading) {
		t.Errorf("CHANGELOG.md has no section %q", heading[1:])
	}
}
