package approval

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// grant asks for a call and allows it.
func (e *env) grant(s *Store, a proto.Approval, how, pattern string) proto.Approval {
	e.t.Helper()
	a, err := answer(s, e.add(s, a), how, pattern)
	zinotest.Must(e.t, err)
	return a
}

func callOf(a proto.Approval) Call { return CallOf(a.Call, a.SessionID, a.By.UID) }

func TestGrantsMatch(t *testing.T) {
	e := newEnv(t)
	s := e.open()
	made := e.grant(s, request(1, "make install"), "always", "")
	for _, test := range []struct {
		name   string
		change func(*Call)
		want   bool
	}{
		{"same", func(*Call) {}, true},
		{"another session", func(c *Call) { c.Session = "other" }, true},
		{"another target", func(c *Call) { c.Input = []byte(`{"command":"make all -j2"}`) }, true},
		{"all commands match", func(c *Call) { c.Input = []byte(`{"command":"LANG=C make a && make b"}`) }, true},
		{"one command does not", func(c *Call) { c.Input = []byte(`{"command":"make a && rm b"}`) }, false},
		{"in a substitution", func(c *Call) { c.Input = []byte(`{"command":"make $(rm b)"}`) }, false},
		{"with a variable", func(c *Call) { c.Input = []byte(`{"command":"PATH=/tmp make a"}`) }, false},
		{"to a file", func(c *Call) { c.Input = []byte(`{"command":"make >a"}`) }, false},
		{"below the root", func(c *Call) { c.Root += "/sub" }, true},
		{"above the root", func(c *Call) { c.Root = "/home/ann" }, false},
		{"beside the root", func(c *Call) { c.Root = "/home/ann/p2" }, false},
		{"another tool", func(c *Call) { c.Tool = "execute_bash" }, false},
		{"another level", func(c *Call) { c.Sandbox = proto.LevelWorkspaceWrite }, false},
		{"without network", func(c *Call) { c.Network = false }, true},
		{"another user", func(c *Call) { c.UID++ }, false},
		{"another input", func(c *Call) { c.Input = []byte(`{"timeout":3}`) }, false},
	} {
		c := callOf(made)
		test.change(&c)
		id, ok := s.Use(c, "always")
		zinotest.Equal(t, test.name, ok, test.want)
		zinotest.Equal(t, test.name+": grant", id == made.Grant, test.want)
	}
	for grantable, want := range map[string]bool{"once": false, "session": false, "always": true, "": false} {
		_, ok := s.Use(callOf(made), grantable)
		zinotest.Equal(t, "grantable "+grantable, ok, want)
	}
	grants, problems := e.open().Grants.Grants()
	zinotest.Equal(t, "grants", fmt.Sprint(len(grants), " ", grants[0].Command, " ", grants[0].Uses, " ", grants[0].LastUse, problems), "1 make * 7 2026-11-23T10:00:00Z[]")
}

func TestGrantsEnd(t *testing.T) {
	e := newEnv(t)
	s := e.open()
	session, always := e.grant(s, request(1, "make"), "session", ""), e.grant(s, request(2, "ls"), "always", "")
	use := func(a proto.Approval) bool { _, ok := e.open().Use(callOf(a), "always"); return ok }
	e.pass(23 * time.Hour)
	zinotest.Must(t, s.Extend("other"))
	zinotest.Must(t, s.Extend("s"))
	e.pass(23 * time.Hour)
	zinotest.Equal(t, "of the session, 23 h after its last turn", use(session), true)
	other := callOf(session)
	other.Session = "other"
	_, ok := s.Use(other, "always")
	zinotest.Equal(t, "of another session", ok, false)
	e.pass(2 * time.Hour)
	zinotest.Equal(t, "of the session, 25 h after its last turn", use(session), false)
	e.pass(28*24*time.Hour - time.Second)
	zinotest.Equal(t, "always, in 30 days", use(always), true)
	removed, err := e.open().Revoke(func(g proto.Grant) bool { return g.ID == always.Grant })
	zinotest.Must(t, err)
	zinotest.Equal(t, "revoked", len(removed), 1)
	zinotest.Equal(t, "revoked", use(always), false)
	again := e.grant(s, request(3, "ls"), "always", "")
	e.pass(30 * 24 * time.Hour)
	zinotest.Equal(t, "always, after 30 days", use(again), false)
}

// TestProposedGrants checks what an answer without a pattern allows.
func TestProposedGrants(t *testing.T) {
	e := newEnv(t)
	s := e.open()
	root := zinotest.Dir(t)
	for _, test := range []struct{ tool, input, pattern, want string }{
		{"bash", `{"command":"git push origin"}`, "", "command git push *"},
		{"bash", `{"command":"git push origin"}`, "git push origin", "command git push origin"},
		{"bash", `{"command":"git push origin"}`, "git *", "command git *"},
		{"bash", `{"command":"git push origin"}`, "make *", `error the pattern "make *" does not match the call: git push origin`},
		{"bash", `{"command":"git push; make"}`, "git *", `error the pattern "git *" does not match the call: git push; make`},
		{"bash", `{"command":"git push; make"}`, "", `input {"command":"git push; make"}`},
		{"bash", `{"command":"sh -c 'make'"}`, "", `input {"command":"sh -c 'make'"}`},
		{"bash", `{"command":"python3 a.py"}`, "", "command python3 a.py"},
		{"write", `{"path":"a[1].txt","content":""}`, "", "path " + root + `/a\[1\].txt`},
		{"write", `{"path":"a.txt","content":""}`, "**", "path **"},
		{"write", `{"path":"a.txt","content":""}`, "b/**", `error the pattern "b/**" does not match the call: a.txt`},
		{"mcp:files/list", `{"a":1}`, "", "mcp files/list"},
		{"page_eval", `{"code":"1"}`, "", `input {"code":"1"}`},
		{"page_eval", `{"code":"1"}`, "*", "error calls of page_eval have no patterns: answer without one"},
	} {
		a := request(1, "")
		a.Call.Tool, a.Call.Input, a.Call.Root = test.tool, []byte(test.input), root
		got, err := answer(s, e.add(s, a), "always", test.pattern)
		text := fmt.Sprint("error ", err)
		if err == nil {
			grants, _ := s.Grants.Grants()
			g := grants[len(grants)-1]
			for name, value := range map[string]string{"command": g.Command, "path": g.Path, "mcp": g.MCP, "input": g.Input} {
				if value != "" {
					text = name + " " + value
				}
			}
			id, ok := s.Use(callOf(got), "always")
			if !ok {
				t.Errorf("%s %s: the grant %s does not allow the call", test.tool, test.input, text)
			}
			_, err = s.Revoke(func(other proto.Grant) bool { return other.ID == id })
			zinotest.Must(t, err)
		}
		zinotest.Equal(t, test.tool+" "+test.input+" "+test.pattern, text, test.want)
	}
}

const tables = `# by hand
[[grant]]
id = "g-1"
scope = "always"
session = ""
root = "*"
tool = "bash"
command = "make *"
sandbox = "off"
network = true
uid = 1000
expires = 2026-12-22T10:00:00Z
`

func TestUnknownKeysIgnoreTheGrant(t *testing.T) {
	e := newEnv(t)
	path := filepath.Join(e.dir, grantsFile)
	zinotest.Write(t, path, tables+"when = \"monday\"\n[grant.more]\na = 1\n"+strings.Replace(tables, "g-1", "g-2", 1)+strings.Replace(tables, "make *", "", 1))
	s := e.open()
	grants, problems := s.Grants.Grants()
	zinotest.Equal(t, "grants", len(grants), 1)
	zinotest.Equal(t, "problems", strings.Join(problems, "; "),
		`grant g-1 is ignored: unknown key "when"; grant g-1 is ignored: one of command, path, host, mcp and input must be given`)
	c := callOf(request(1, "make all"))
	c.Root = "/elsewhere"
	id, ok := s.Use(c, "always")
	zinotest.Equal(t, "grant", fmt.Sprint(id, ok), "g-2true")
	text := zinotest.Read(t, path) // the count of the use
	for _, part := range []string{"uses = 1", "when = 'monday'", "[grant.more]"} {
		if !strings.Contains(text, part) {
			t.Errorf("the file lacks %s:\n%s", part, text)
		}
	}
	_, again := s.Grants.Grants()
	zinotest.Equal(t, "problems", len(again), 2)
	zinotest.Equal(t, "warnings", e.log.Count("some grants do not hold"), 1)
}

func TestBrokenGrantsHoldNothing(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"not TOML":     {tables + "[[grant", 0o600, "line 13, column "},
		"other tables": {"[grants]\n", 0o600, `unknown key "grants"`},
		"writable":     {tables, 0o620, "chmod 600 it"},
	} {
		e := newEnv(t)
		path := filepath.Join(e.dir, grantsFile)
		zinotest.Write(t, path, test.text)
		zinotest.Must(t, os.Chmod(path, test.mode))
		s := e.open()
		grants, problems := s.Grants.Grants()
		zinotest.Equal(t, name+": grants", len(grants), 0)
		if len(problems) != 1 || !strings.Contains(problems[0], test.want) {
			t.Errorf("%s: problems %q", name, problems)
		}
		a := e.add(s, request(1, "make"))
		_, err := answer(s, a, "always", "")
		if err == nil || !strings.HasPrefix(err.Error(), "cannot store the answer: cannot store the grant: ") {
			t.Errorf("%s: error %v", name, err)
		}
		zinotest.Equal(t, name+": state", state(t, s, a.ID), proto.ApprovalPending)
		zinotest.Equal(t, name+": file", zinotest.Read(t, path), test.text)
	}
}

func TestGrantsAreSharedBetweenDaemons(t *testing.T) {
	e := newEnv(t)
	var wg sync.WaitGroup
	for i := range 4 {
		s := e.open()
		wg.Go(func() {
			for range 10 {
				e.grant(s, request(i, fmt.Sprint("make ", i)), "always", "make *")
				s.Use(callOf(request(i, "make")), "always")
			}
		})
	}
	wg.Wait()
	grants, problems := e.open().Grants.Grants()
	uses := 0
	for _, g := range grants {
		uses += g.Uses
	}
	zinotest.Equal(t, "grants, uses and problems", fmt.Sprint(len(grants), uses, problems), "40 40 []")
}

func TestApprovers(t *testing.T) {
	a := request(1, "make")
	a.ID = "ap-k3v9q2mx"
	for _, test := range []struct {
		list Approvers
		uid  int
		want string
	}{
		{Approvers{"root", "requester"}, 1000, "<nil>"},
		{Approvers{"root", "requester"}, os.Geteuid(), "<nil>"},
		{Approvers{"requester"}, 1003, "uid 1003 may not answer ap-k3v9q2mx; approvers: requester"},
		{Approvers{"root", "requester"}, 1003, "uid 1003 may not answer ap-k3v9q2mx; approvers: root, requester"},
		{Approvers{"root", "1003"}, 1003, "<nil>"},
		{Approvers{"daemon"}, 1, "<nil>"},
		{Approvers{"group:daemon"}, 1, "<nil>"},
		{Approvers{"group:daemon"}, 1003, "uid 1003 may not answer ap-k3v9q2mx; approvers: group:daemon"},
	} {
		zinotest.Equal(t, fmt.Sprint(test.list, test.uid), fmt.Sprint(test.list.Allow(test.uid, a)), test.want)
	}
}

func FuzzRequests(f *testing.F) {
	line, err := lineOf(func() proto.Approval {
		a := request(1, "make")
		a.ID, a.State, a.Created, a.Expires = "ap-k3v9q2mx", "pending", "2026-11-23T10:00:00Z", "2026-11-24T10:00:00Z"
		return a
	}())
	zinotest.Must(f, err)
	f.Add(line)
	f.Add([]byte(`{"id":"ap-","state":"denied"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parse(data)
		if err != nil {
			return
		}
		first, err := lineOf(a)
		if err != nil || bytes.ContainsAny(first, "\n") && !wire.Valid(first) {
			t.Fatalf("%q cannot be written: %v", data, err)
		}
		b, err := parse(first)
		if err != nil {
			t.Fatalf("%q is not read again: %v", first, err)
		}
		second, err := lineOf(b)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%q becomes %q: %v", first, second, err)
		}
	})
}

func FuzzGrants(f *testing.F) {
	f.Add([]byte(tables))
	f.Add([]byte(tables + "when = 1\n"))
	f.Add([]byte("grant = [{id = 'a'}, {}]"))
	c := callOf(request(1, "make all"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, problems, err := parseGrants(data)
		if err != nil {
			return
		}
		g := &Grants{now: func() time.Time { return time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC) }}
		allows := func(list []entry) (all string) {
			for _, e := range list {
				all += fmt.Sprint(!e.ignored, !e.ignored && e.matches(&c, g), " ")
			}
			return all
		}
		text, err := format(list)
		if err != nil {
			return // a value that the encoder does not know
		}
		again, more, err := parseGrants(text)
		if err != nil || len(more) != len(problems) || allows(list) != allows(again) {
			t.Fatalf("%q becomes %q: %q, then %q: %v", data, text, problems, more, err)
		}
	})
}
