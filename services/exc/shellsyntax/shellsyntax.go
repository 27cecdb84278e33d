// Package shellsyntax finds errors of syntax in shell scripts without running
// them: what is left of static analysis where no analyser is installed.
package shellsyntax

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Max is the size in bytes of the longest script that is looked at.
const Max = 1 << 20

// dialects are the shells whose syntax is known, by the name of their program.
var dialects = map[string]syntax.LangVariant{
	"bash": syntax.LangBash,
	"sh":   syntax.LangPOSIX,
	"dash": syntax.LangPOSIX,
	"mksh": syntax.LangMirBSDKorn,
}

// Knows reports whether the syntax of the shell of that name is known.
func Knows(shell string) bool {
	_, ok := dialects[shell]
	return ok
}

// Check looks at a script for the shell of that name. The text is the first
// error with its line and column; it is empty for a script without errors, for
// one that is longer than Max, and for a shell that is not known.
//
// The parser descends with the nesting of a script, and a long enough one
// exhausts the stack, which no process survives: what comes from others is
// checked in a process of its own.
func Check(shell, script string) (fault string) {
	dialect, ok := dialects[shell]
	if !ok || len(script) > Max {
		return ""
	}
	defer func() {
		if p := recover(); p != nil { // what a parser cannot cope with is no error of the script's
			fault = ""
		}
	}()
	// Shells take any bytes; the parser takes characters.
	parser := syntax.NewParser(syntax.Variant(dialect))
	if _, err := parser.Parse(strings.NewReader(strings.ToValidUTF8(script, "?")), ""); err != nil {
		return describe(err)
	}
	return ""
}

// describe words an error of the parser as compilers do.
func describe(err error) string {
	switch e := err.(type) {
	case syntax.ParseError:
		return fmt.Sprintf("line %d, column %d: %s", e.Pos.Line(), e.Pos.Col(), e.Text)
	case syntax.LangError:
		return fmt.Sprintf("line %d, column %d: %s is not known to this shell", e.Pos.Line(), e.Pos.Col(), e.Feature)
	}
	return err.Error()
}
