package gate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"zino/pkg/zinotest"
)

func exact() Exact {
	return Exact{
		Tool: "bash", Input: []byte(`{"command":"make"}`), Root: "/home/ann/p", Dir: "/home/ann/p", Sandbox: "off", Network: true,
		Session: "s", Turn: "t-1", UID: 1000, Files: []string{"./x", "ab"},
	}
}

func digest(t *testing.T, e Exact) string {
	t.Helper()
	d, err := e.Digest()
	zinotest.Must(t, err)
	return d
}

// TestDigest checks the form of the digest, which others compute too, and that each field
// is part of it.
func TestDigest(t *testing.T) {
	// computed by a program of another language
	zinotest.Equal(t, "digest", digest(t, exact()), "sha256:e8de1a44c505ad9229a9d867771ccf6a87fb2e1cc50deb856c2c1e5e325ba497")
	seen := []string{digest(t, exact())}
	for name, change := range map[string]func(*Exact){
		"tool":           func(e *Exact) { e.Tool = "bast" },
		"input":          func(e *Exact) { e.Input = []byte(`{"command":"makf"}`) },
		"input's keys":   func(e *Exact) { e.Input = []byte(`{"commane":"make"}`) },
		"blank in input": func(e *Exact) { e.Input = []byte(`{"command":"make "}`) },
		"root":           func(e *Exact) { e.Root = "/home/ann/q" },
		"directory":      func(e *Exact) { e.Dir = "/home/ann/q" },
		"sandbox":        func(e *Exact) { e.Sandbox = "ofg" },
		"network":        func(e *Exact) { e.Network = false },
		"session":        func(e *Exact) { e.Session = "r" },
		"turn":           func(e *Exact) { e.Turn = "t-2" },
		"uid":            func(e *Exact) { e.UID = 1001 },
		"file":           func(e *Exact) { e.Files[0] = "./y" },
		"hash":           func(e *Exact) { e.Files[1] = "ac" },
		"no file":        func(e *Exact) { e.Files = nil },
		"border":         func(e *Exact) { e.Session, e.Turn = "st", "-1" },
	} {
		e := exact()
		change(&e)
		if d := digest(t, e); slices.Contains(seen, d) {
			t.Errorf("%s is not part of the digest", name)
		} else {
			seen = append(seen, d)
		}
	}
	for _, same := range []string{"{ \"command\" :\n\"make\" }", `{"\u0063ommand":"m\u0061ke"}`} {
		e := exact()
		e.Input = []byte(same)
		zinotest.Equal(t, same, digest(t, e), seen[0])
	}
	for _, invalid := range []string{"", "{", `{"a":"\x"}`, "{\"a\":\"\xff\"}", "{} {}"} {
		e := exact()
		e.Input = []byte(invalid)
		if d, err := e.Digest(); err == nil {
			t.Errorf("%q has the digest %s", invalid, d)
		}
	}
}

func TestCanonical(t *testing.T) {
	got, err := canonical([]byte(" { \"b\" : [ 1.0 , -2e3, true , null ] , \"a\\u0022\\\\\" : \"\\u00e9\\n\\t<\\/\\ud83d\\ude00\u2028\" }\n"))
	zinotest.Must(t, err)
	zinotest.Equal(t, "canonical", got, `{"b":[1.0,-2e3,true,null],"a\"\\":"é`+`\u000a\u0009</`+"😀\u2028\"}")
}

// TestFiles checks which files a digest depends on.
func TestFiles(t *testing.T) {
	root := realTemp(t)
	zinotest.Must(t, os.WriteFile(filepath.Join(root, "x"), []byte("a"), 0o700))
	const sum = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
	for _, tt := range []struct {
		call Call
		want []string
	}{
		{Call{Tool: "write", Path: "x"}, []string{sum}},
		{Call{Tool: "edit", Path: "y"}, []string{"absent"}},
		{Call{Tool: "read", Path: "x"}, nil},
		{Call{Tool: "bash", Command: "make x"}, nil},
		{Call{Tool: "bash", Command: "./x y && env ./z"}, []string{"./x", sum, "./z", "absent"}},
		{Call{Tool: "bash", Command: root + "/x"}, []string{root + "/x", sum}},
	} {
		tt.call.Root = root
		if got, err := Files(&tt.call); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, %v", tt.call, got, err)
		}
	}
	zinotest.Must(t, os.Symlink("loop", filepath.Join(root, "loop")))
	for _, path := range []string{".", "loop"} {
		if got, err := Files(&Call{Tool: "write", Path: path, Root: root}); err == nil {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// FuzzCanonical checks that the canonical form is valid JSON, and its own canonical form.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":"\u0000\"\\"}`, ` [ "\ud800" , 1e5 ] `, `"`, `{"a":"é"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := canonical(data)
		if err != nil {
			return
		}
		if twice, err := canonical([]byte(once)); err != nil || twice != once {
			t.Errorf("%q: %q, then %q, %v", data, once, twice, err)
		}
	})
}
