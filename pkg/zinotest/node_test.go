package zinotest

import (
	"os/exec"
	"testing"
)

func TestNode(t *testing.T) {
	program, modules := Node(t)
	cmd := exec.Command(program, "--input-type=module", "-e", `import { Client } from "@modelcontextprotocol/sdk/client/index.js"; console.log(typeof Client)`)
	cmd.Dir = modules
	out, err := cmd.CombinedOutput()
	Must(t, err)
	Equal(t, "output", string(out), "function\n")
}
