package adapters

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestPython(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("python3", "zino_repl.py", "--name", "My Shop")
	p := b.page()
	if p.Name != "my-shop" || p.Lang != "python" || p.Kind != "program" {
		t.Errorf("%+v", p)
	}
	b.follow([]step{
		{"12 + 13", "json", "25"},
		{"'a\\nb'", "text", "a\nb"},
		{"a = 1\ndef f(x):\n    return x + a\nclass C:\n    m = 7", "text", "None"},
		{"b = f(1)\nb + C.m  # and a remark", "json", "9"},
		{"{'a': 1, 'b': [True, None, 'x'], 'c': 1.5}", "json", `{"a": 1, "b": [true, null, "x"], "c": 1.5}`},
		{"import asyncio\nasync def g():\n    return 4\nawait g()", "json", "4"},
		{"await asyncio.sleep(0)\nz = 6", "text", "None"},
		{"z", "json", "6"},
		{"raise ValueError('oh no')", "error", "Traceback (most recent call last):\n  File \"<zino"},
		{"def deep():\n    raise KeyError('deep')\ndeep()", "error", "    raise KeyError('deep')"},
		{"nowhere", "error", "NameError: name 'nowhere' is not defined"},
		{"if (", "error", "SyntaxError"},
		{"exit()", "error", "SystemExit"},
		{"ran = globals().get('ran', 0) + 1\nNone.x", "error", "AttributeError"},
		{"ran", "json", "1"},
		{"None", "text", "None"},
		{"float('nan')", "text", "nan"},
		{"{1: 2}", "text", "{1: 2}"},
		{"(1, 2)", "text", "(1, 2)"},
		{"class Bad:\n    def __repr__(self):\n        raise Exception\nBad()", "text", "<Bad that cannot be shown: Exception>"},
		{"'\\ud800'", "text", "?"},
		{"l = []\nl.append(l)\nl", "text", "[[...]]"},
	})
	if r := b.eval("'x' * (3 << 20)"); !r.OK || len(r.Value) > 3<<20 || !strings.HasSuffix(r.Value, "more characters left out) ...") {
		t.Errorf("a long string: %d bytes, ending %.60q, error %q", len(r.Value), r.Value[max(0, len(r.Value)-60):], r.Error)
	}
}

// TestPythonEvents: prints, logs and uncaught errors are shown, reach the program's
// own output, and do not end it.
func TestPythonEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("python3", "-u", "zino_repl.py", b.script("shop.py", `
import logging, threading
print("open", 3)
logging.getLogger("till").warning("low on %s", "change")
def work(): raise ValueError("from a thread")
thread = threading.Thread(target=work)
thread.start()
thread.join()
sold = 3
raise KeyError("from the script")
`))
	b.has(fence+"Text print\nopen 3\n", fence+"Text logging.till\nlow on change\n", "ValueError: from a thread", "KeyError: 'from the script'")
	if p := b.page(); p.Name != "shop-py" {
		t.Errorf("its name is %q", p.Name)
	}
	r := b.eval("print('one'); print('two', end='')\nlogging.error('bad')\nsold")
	if !r.OK || r.Value != "3" || len(r.Background) != 3 || r.Background[0].Message != "one" {
		t.Errorf("%+v", r)
	}
	b.has(fence+"Text print\none\n", fence+"Error logging.root\nbad\n", fence+"Text print\ntwo\n")
	for _, want := range []string{"open 3", "low on change", "from a thread", "from the script", "two"} {
		if !strings.Contains(b.err.String(), want) {
			t.Errorf("%q is not in its output", want)
		}
	}
}

// TestPythonReconnects: the program keeps its file when the service starts again.
func TestPythonReconnects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("python3", "zino_repl.py")
	before := b.page()
	b.follow([]step{{"kept = 5", "text", "None"}})
	b.stop()
	b.start()
	if after := b.page(); after.ID != before.ID || after.File != before.File {
		t.Errorf("%+v, before %+v", after, before)
	}
	b.follow([]step{{"kept", "json", "5"}})
}

// TestPythonImport: a program that attaches itself chooses its names, can detach
// itself, and ends as it would have without.
func TestPythonImport(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	b.run("python3", b.script("own.py", `
import sys, threading
sys.path.insert(0, "`+here+`")
import zino_repl
over = threading.Event()
page = zino_repl.attach(name="own", names={"over": over, "answer": 42})
over.wait()
page.close()
`))
	if p := b.page(); p.Name != "own" {
		t.Errorf("%+v", p)
	}
	b.follow([]step{{"answer", "json", "42"}, {"threading", "error", "NameError"}})
	b.eval("over.set()") // which may end it before it has answered
	b.gone()
}
