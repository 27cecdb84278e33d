package exc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/proto"
)

// withoutAnalysers has the service find no analyser.
func withoutAnalysers(t *testing.T) *service {
	t.Helper()
	return newService(t, nil, map[string]string{
		"bash.json":  `{"meta":{"executor":"bash","file_extension":".sh","static_analysis":"zino-no-such-analyser"}}`,
		"sh.json":    `{"meta":{"executor":"sh","static_analysis":"zino-no-such-analyser"}}`,
		"other.json": `{"meta":{"executor":"other","static_analysis":"zino-no-such-analyser"}}`,
		"none.json":  `{"meta":{"executor":"dash"}}`,
	})
}

// Where the analyser of a shell's scripts is not installed, their syntax is
// looked at.
func TestValidateSyntax(t *testing.T) {
	t.Parallel()
	s := withoutAnalysers(t)
	tests := []struct{ executor, code, fault string }{
		{"bash", "a=(1 2); echo ${a[@]}", ""},
		{"bash", "echo a\nfor i in 1; do", "line 2, column 13: "},
		{"sh", "a=(1 2)", "line 1, column 3: "},
		{"sh", "echo '\xff'", ""},
		{"dash", "for", ""},  // nobody asked for its analysis
		{"other", "for", ""}, // no shell
	}
	for _, tt := range tests {
		got, err := s.validate(t.Context(), proto.Validate{Executor: tt.executor, Code: tt.code})
		if err != nil || got.OK != (tt.fault == "") || !strings.HasPrefix(got.Errors, tt.fault) || tt.fault == "" && got.Errors != "" {
			t.Errorf("%s %q: %+v, %v", tt.executor, tt.code, got, err)
		}
	}
	caps, err := s.capabilities(t.Context(), proto.CapabilitiesRequest{})
	if err != nil || caps.Executors["bash"].HasValidator {
		t.Errorf("an analyser that is not installed: %+v, %v", caps, err)
	}
}

// A script that the parser cannot cope with costs no more than a process.
func TestValidateDeepNesting(t *testing.T) {
	t.Parallel()
	s := withoutAnalysers(t)
	for _, opening := range []string{"(", "$(("} {
		code := strings.Repeat(opening, 1<<19/len(opening))
		if got, err := s.validate(t.Context(), proto.Validate{Executor: "bash", Code: code}); err != nil || got.OK && got.Errors != "" {
			t.Errorf("%q…: %.100v, %v", opening, got, err)
		}
	}
	if r := s.run(t, "bash", "echo on"); r.Stdout != "on\n" {
		t.Errorf("got %+v", r)
	}
}

func TestCheckSyntaxOfNoFile(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	cmd := testProgram(dir, syntaxArg, "bash", filepath.Join(dir, "gone"))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "cannot be read") {
		t.Errorf("%s, %v", out, err)
	}
	file := filepath.Join(dir, "good")
	if err := os.WriteFile(file, []byte("echo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := testProgram(dir, syntaxArg, "bash", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s, %v", out, err)
	}
}
