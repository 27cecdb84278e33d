package shellsyntax

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		name, shell, script, want string
	}{
		{"empty", "bash", "", ""},
		{"good", "bash", "for i in 1 2; do echo $i; done\n", ""},
		{"array", "bash", "a=(1 2); echo ${a[@]}", ""},
		{"array of sh", "sh", "a=(1 2)", "line 1, column 3: arrays is not known to this shell"},
		{"loop without end", "bash", "echo a\nfor i in 1; do", "line 2, column 13: `do` must be followed"},
		{"quote without end", "bash", "echo 'a", "line 1, column 6: "},
		{"stray word", "sh", "fi", `line 1, column 1: `},
		{"other shell", "fish", "if (", ""},
		{"too long", "bash", "(" + strings.Repeat(" ", Max), ""},
		{"not UTF-8", "bash", "echo '\xff\x00'", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Check(tt.shell, tt.script)
			if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("got %q, want %q…", got, tt.want)
			}
		})
	}
}

func TestKnows(t *testing.T) {
	for shell, want := range map[string]bool{"bash": true, "sh": true, "python3": false, "": false} {
		if Knows(shell) != want {
			t.Errorf("%q: not %v", shell, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("for i in 1; do echo; done")
	f.Add("cat <<E\nx\nE\n")
	f.Add("$((1+")
	f.Add("case a in (b) ;; esac; a=(1 [2]=3)")
	f.Fuzz(func(t *testing.T, script string) {
		for shell := range dialects {
			if fault := Check(shell, script); strings.Contains(fault, "\n") {
				t.Errorf("%q: more than a line: %q", script, fault)
			}
		}
	})
}
