package exc

import (
	"fmt"
	"os"
	"runtime/debug"

	"zino/services/exc/shellsyntax"
)

// syntaxStack is how many bytes the parser's stack may take. Nesting beyond
// that ends the process, and the script counts as one that nobody looked at.
const syntaxStack = 64 << 20

// checkSyntax is the life of a process that looks at a script for a shell: it
// prints the first error and ends with status 1, or ends with 0.
func checkSyntax(shell, file string) {
	debug.SetMaxStack(syntaxStack)
	script, err := os.ReadFile(file)
	fault := ""
	if err == nil {
		fault = shellsyntax.Check(shell, string(script))
	} else {
		fault = "the script cannot be read: " + err.Error()
	}
	if fault != "" {
		fmt.Println(fault)
		os.Exit(1)
	}
}
