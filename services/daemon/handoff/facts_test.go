package handoff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestFiles(t *testing.T) {
	var many, more []any
	for i := range 30 {
		many = append(many, did("read", fmt.Sprintf("r%d", i), fine))
		more = append(more, did("write", fmt.Sprintf("w%d", i), fine))
	}
	for name, c := range map[string]struct {
		root   string
		events []any
		want   string
	}{
		"nothing":              {"/p", nil, ""},
		"latest first":         {"/p", []any{did("read", "a", fine), did("read", "b", fine), did("read", "a", fine)}, "a b"},
		"changed before read":  {"/p", []any{did("edit", "a", fine), did("write", "b", fine), did("read", "c", fine), did("read", "a", fine)}, "b a c"},
		"read, then changed":   {"/p", []any{did("read", "a", fine), did("read", "b", fine), did("write", "a", fine)}, "a b"},
		"absolute and inside":  {"/p", []any{did("read", "/p/x/y.go", fine), did("read", "/p//x/../x/y.go", fine)}, "x/y.go"},
		"outside":              {"/p", []any{did("read", "/etc/passwd", fine), did("read", "../q", fine), did("read", "/pp/x", fine)}, "/pp/x /q /etc/passwd"},
		"named with dots":      {"/p", []any{did("read", "./a", fine), did("read", "..b", fine), did("read", "../p/c", fine)}, "c ..b a"},
		"no files":             {"/p", []any{did("read", "", fine), did("read", "/p", fine), did("read", ".", fine)}, ""},
		"not to be listed":     {"/p", []any{did("read", "a\nb", fine), did("read", "a\x1b[31m", fine), did("read", "\u202ea", fine), did("read", strings.Repeat("a", 600), fine)}, ""},
		"failed":               {"/p", []any{did("read", "a", refused), did("edit", "b", refused)}, ""},
		"lost":                 {"/p", []any{did("write", "a", lostCall), did("read", "b", lostCall)}, "a"},
		"no result":            {"/p", []any{did("write", "a", fine)[0]}, "a"},
		"no path":              {"/p", []any{use("1", "read", `{}`), result("1", fine), use("2", "read", `{"path":5}`), result("2", fine), use("3", "read", `"a"`), result("3", fine)}, ""},
		"other tools":          {"/p", []any{use("1", "paint", `{"path":"a"}`), result("1", fine)}, ""},
		"root of the session":  {"", []any{begun("/s"), did("read", "/s/a", fine), did("read", "b", fine), did("read", "/t/c", fine)}, "/t/c b a"},
		"begun elsewhere":      {"/s/p", []any{begun("/s"), did("read", "p/a", fine), did("read", "b", fine)}, "/s/b a"},
		"root with a slash":    {"/p/", []any{did("read", "/p/a", fine)}, "a"},
		"root of all":          {"/", []any{did("read", "/etc/a", fine), did("read", "b", fine)}, "b etc/a"},
		"no root at all":       {"", []any{did("read", "/a", fine), did("read", "./b", fine), did("read", "../c", fine)}, "../c b /a"},
		"first root only":      {"", []any{begun("/s"), begun("/t"), did("read", "/s/a", fine)}, "a"},
		"bash is not guessed":  {"/p", []any{ran("cat a.go", fine)}, ""},
		"at most 20":           {"/p", many, "r29 r28 r27 r26 r25 r24 r23 r22 r21 r20 r19 r18 r17 r16 r15 r14 r13 r12 r11 r10"},
		"changed push out":     {"/p", append(slices.Clone(more), many...), "w29 w28 w27 w26 w25 w24 w23 w22 w21 w20 w19 w18 w17 w16 w15 w14 w13 w12 w11 w10"},
		"changed long ago too": {"/p", append([]any{did("edit", "old", fine)}, many...), "old r29 r28 r27 r26 r25 r24 r23 r22 r21 r20 r19 r18 r17 r16 r15 r14 r13 r12 r11"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(factsOf(c.root, c.events...).files(), " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	python := func(code string) []string {
		return []string{use("p", "execute_python3", `{"code":`+quoted(code)+`}`), result("p", fine)}
	}
	var many []any
	for i := range 15 {
		many = append(many, ran(fmt.Sprintf("c%d", i), fine))
	}
	for name, c := range map[string]struct {
		events []any
		want   string
	}{
		"nothing":          {nil, ""},
		"in order, once":   {[]any{ran("a", fine), ran("b", fine), ran(" a\n", fine)}, "b\na"},
		"failed":           {[]any{ran("a", exit1), ran("b", late), ran("c", refused)}, "# failed: exit status 1:\na\n# timed out:\nb\n# failed ENOENT:\nc"},
		"repaired":         {[]any{ran("a", exit1), ran("a", fine)}, "a"},
		"lost":             {[]any{ran("a", lostCall), ran("b", fine)[0]}, "# result lost:\na\n# result lost:\nb"},
		"at most 12":       {many, "c3\nc4\nc5\nc6\nc7\nc8\nc9\nc10\nc11\nc12\nc13\nc14"},
		"code":             {[]any{python("print('x')"), python("a\nb"), python(""), use("1", "execute_bash", `{"code":"ls"}`), result("1", fine)}, "python3 -c 'print('\\''x'\\'')'\nls"},
		"unknown code":     {[]any{use("1", "execute_cobol", `{"code":"STOP RUN"}`), result("1", fine)}, ""},
		"root":             {[]any{ran("cd /p && make", fine), ran("cd '/p'; /p/run.sh -I/p/inc /p.", fine), ran(`cd "/p"&&ls /pp /mnt/p /p/a`, fine)}, "make\n./run.sh -I./inc ./.\nls /pp /mnt/p ./a"},
		"root after cd":    {[]any{ran("cd sub && cat /p/a", fine), ran("cd sub && ls", fine), ran("cd /p/sub", fine)}, "cd sub && ls"},
		"lines":            {[]any{ran("for i in 1 2\ndo echo $i\ndone", fine)}, "for i in 1 2\ndo echo $i\ndone"},
		"not for pasting":  {[]any{ran(strings.Repeat("a", 1001), fine), ran(strings.Repeat("a\n", 13), fine), ran("a\x1bb", fine), ran("a\rb", fine), ran("", fine), ran("echo 'a", exit1), ran(`echo a\`, fine)}, ""},
		"no input":         {[]any{use("1", "bash", `{}`), result("1", fine), use("2", "bash", `[]`), result("2", fine)}, ""},
		"no call":          {[]any{result("1", fine)}, ""},
		"same id":          {[]any{use("1", "bash", `{"command":"a"}`), use("1", "bash", `{"command":"b"}`), result("1", fine), result("1", exit1)}, "b\n# failed: exit status 1:\na"},
		"begun elsewhere":  {[]any{begun("/p/sub"), ran("make", fine)}, "# These ran in sub\nmake"},
		"begun far away":   {[]any{begun("/q"), ran("make", fine)}, "# These ran in /q\nmake"},
		"begun right here": {[]any{begun("/p/"), ran("make", fine)}, "make"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := factsOf("/p", c.events...).script(); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestOpenTasks(t *testing.T) {
	for name, c := range map[string]struct {
		events []any
		want   []string
	}{
		"nothing":          {nil, nil},
		"all done":         {[]any{user("go"), ran("a", fine), assistant("done")}, nil},
		"unanswered":       {[]any{user("go\nnow in /p/x")}, []string{"Finish the last request, it was not answered: go now in ./x"}},
		"interrupted":      {[]any{user("go"), assistant("I"), interrupted}, []string{"Finish the last request, it was interrupted: go"}},
		"cut off":          {[]any{user("go"), `{"type":"message","role":"assistant","text":"I","partial":true}`}, []string{"Finish the last request, the answer was cut off: go"}},
		"error":            {[]any{user("go"), `{"type":"error","message":"HTTP 500:\n\u001b[2Joops"}`}, []string{"Finish the last request, it ended in an error: HTTP 500: ^[[2Joops: go"}},
		"stopped at tools": {[]any{user("go"), assistant("I will"), ran("a", fine)}, []string{"Finish the last request, it did not finish: go"}},
		"only the last":    {[]any{user("one"), interrupted, user("two"), assistant("done")}, nil},
		"last of many":     {[]any{user("1"), user("2"), user("3"), user("4"), user("5"), user("6")}, []string{"Finish the last request, it was not answered: 6"}},
		"no request":       {[]any{interrupted}, nil},
		"blank request":    {[]any{user("go"), assistant("done"), user(" \n")}, nil},
		"failed": {
			[]any{user("go"), ran("make", exit1), ran("sleep 9", late), ran("x", refused), assistant("sorry")},
			[]string{"Run again, it failed: exit status 1: `make`", "Run again, it timed out: `sleep 9`", "Run again, it failed ENOENT: `x`"},
		},
		"repaired": {[]any{ran("make", exit1), ran("make", fine)}, nil},
		"lost": {
			[]any{did("write", "a", lostCall), ran("make", lostCall), use("1", "remember", `{}`)},
			[]string{
				"Check what became of it, its result was lost: write `a`", "Check what became of it, its result was lost: `make`",
				"Check what became of it, its result was lost: remember",
			},
		},
		"done again":   {[]any{did("write", "a", lostCall), did("write", "a", fine)}, nil},
		"reads failed": {[]any{did("read", "a", refused)}, nil},
		"long command": {[]any{ran("echo `"+strings.Repeat("é", 200), exit1)}, []string{"Run again, it failed: exit status 1: ``echo `" + strings.Repeat("é", 97) + "…``"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := factsOf("/p", c.events...).tasks(); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestFactsDoNotGrow checks that the size of the facts is bounded.
func TestFactsDoNotGrow(t *testing.T) {
	f := newFacts("/p")
	long := strings.Repeat("long ", 1<<10)
	for i := range 600 {
		n := fmt.Sprint(i)
		for _, e := range join(user(n+long), ran(n+" false", exit1), did("read", n, fine), did("write", "w"+n, lostCall), use(n, "bash", `{"command":`+quoted(n+long)+`}`)) {
			f.event(members([]byte(e)))
		}
	}
	if len(f.calls) != callsMax {
		t.Errorf("%d calls are kept", len(f.calls))
	}
	for _, c := range f.calls {
		if len(c.label)+len(c.command) > 2*labelBytes {
			t.Fatalf("%d bytes of a call are kept", len(c.label)+len(c.command))
		}
	}
	f.finish()
	b := f.bundle("go")
	if n := len(b.markdown()); n > 1<<16 || len(b.files) != filesMax || len(f.commands.list) != commandsMax || len(b.tasks) != openMax+1 {
		t.Errorf("%d bytes, %d files, %d commands, %d tasks", n, len(b.files), len(f.commands.list), len(b.tasks))
	}
}
