package gate

import (
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func TestCoversCommand(t *testing.T) {
	for _, test := range []struct {
		pattern, command string
		want             bool
	}{
		{"make *", "make", true},
		{"make *", "make all && make install | make x", true},
		{"make *", "cd a && make", false},
		{"make *", "make >out", false},
		{"make *", "make >/dev/null 2>&1", true},
		{"make *", "timeout 5 make all", true},
		{"make *", "sudo make all", false},
		{"make *", "PATH=. make", false},
		{"make *", "LANG=C make", true},
		{"make *", "PATH=.", false},
		{"make *", "make $(make a)", true},
		{"make *", "make $(rm a)", false},
		{"make *", "for i in a b; do make $i; done", true},
		{"make all", "make $x", false},
		{"make *", "$x make", false},
		{"make *", "", false},
		{"make *", "# make", false},
		{"make *", "make 'unclosed", false},
		{"make *", "make() { rm a; }; make", false},
		{"make *", strings.Repeat("make;", 20_000), false},
		{" ", "make", false},
	} {
		zinotest.Equal(t, test.pattern+" and "+test.command[:min(len(test.command), 40)], CoversCommand(test.pattern, test.command, []string{"LANG"}), test.want)
	}
	zinotest.Equal(t, "commands", strings.Join(Commands("make a >b; git push | sh -c 'rm x'"), ", "), "make a, > b, git push, sh -c 'rm x', rm x")
}

func TestSameInput(t *testing.T) {
	zinotest.Equal(t, "blanks and escapes", SameInput([]byte(`{"a": "\u00e9"}`), []byte(`{"a":"é"}`)), true)
	zinotest.Equal(t, "another value", SameInput([]byte(`{"a":"é"}`), []byte(`{"a":"e"}`)), false)
	zinotest.Equal(t, "not JSON", SameInput([]byte(`{`), []byte(`{`)), false)
}
