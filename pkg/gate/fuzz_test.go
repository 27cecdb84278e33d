package gate

import (
	"strings"
	"testing"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// FuzzCommand checks that no command line panics, and that one that no shell can parse is
// not allowed by rules.
func FuzzCommand(f *testing.F) {
	for _, tt := range commandLines {
		f.Add(tt)
	}
	p := newPolicy(f, "", rule("allow", `command = ["*"]`)+rule("allow", `tool = ["write", "read"]`))
	f.Fuzz(func(t *testing.T, command string) {
		_, posixErr := parseAs(syntax.LangPOSIX, command)
		_, bashErr := parseAs(syntax.LangBash, command)
		d := p.Decide(&Call{Tool: "bash", Command: command, Root: "/", Mode: Asks})
		if d.Action == Allow && (posixErr != nil && bashErr != nil || !utf8.ValidString(command) || strings.ContainsAny(command, "\r\x00") || len(command) > commandMax) {
			t.Errorf("%q is allowed: %+v", command, d)
		}
		if len(d.Parts) == 0 || d.Action == None {
			t.Errorf("%q is not decided", command)
		}
	})
}

// FuzzPolicy checks that no file panics, and that one with a problem has no rules.
func FuzzPolicy(f *testing.F) {
	f.Add(rule("allow", `command = ["git *"]; path = ["~/x/**"]; host = ["*.x"]; sandbox = ["off"]; grantable = "once"`))
	f.Add("version = 1\n[[rule]]\naction = \"deny\"\nuser = [1]\nreason = '''x\n'''\n")
	f.Add("rule = [{action = \"allow\"}]")
	f.Add("[[rule]]\n[rule.x]\n")
	f.Fuzz(func(t *testing.T, content string) {
		file := parse("f", []byte(content), true)
		if len(file.Problems) > 0 && len(file.Rules) > 0 || len(file.Rules) != len(file.spans) {
			t.Errorf("%q: %q with %d rules and %d spans", content, file.Problems, len(file.Rules), len(file.spans))
		}
		for i := range file.Rules {
			if file.Rules[i].Action == None {
				t.Errorf("%q: a rule without an action", content)
			}
			if _, err := file.Remove(i + 1); err != nil && !strings.Contains(content, "user") {
				t.Errorf("%q: rule %d: %v", content, i+1, err)
			}
		}
	})
}
