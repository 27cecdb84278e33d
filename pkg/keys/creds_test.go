package keys

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
)

// TestEncrypted: the key reaches systemd-creds only through its standard input,
// and its output is stored.
func TestEncrypted(t *testing.T) {
	for _, user := range []bool{false, true} {
		log := tool(t, works)
		s, base := newStore(t)
		s.creds.user = user
		t.Setenv("OPENAI_API_KEY", secret)
		path := filepath.Join(base, "keys", "openai.cred")
		if how := set(t, s, "openai", secret); how != "encrypted with systemd-creds in "+path {
			t.Errorf("kept %s", how)
		}
		modes, open := files(t, base)
		if want := "base drwx------\nbase/keys drwx------\nbase/keys/openai.cred -rw-------\n"; modes != want || len(open) > 0 {
			t.Errorf("files:\n%swant\n%s; the key is in %v", modes, want, open)
		}
		holds(t, s, "openai", secret)
		if list, err := s.List(); err != nil || len(list) != 1 || !list[0].Encrypted || list[0].Path != path {
			t.Errorf("list: %+v, %v", list, err)
		}
		given, err := os.ReadFile(log)
		if err != nil || strings.Contains(string(given), secret) {
			t.Errorf("the tool was given %s, %v", given, err)
		}
		want := "decrypt --name=zino-openai - -\n"
		if user {
			want = "--user " + want
		}
		if strings.Count("\n"+string(given), "\n"+want) != 2 {
			t.Errorf("the tool was given %s", given)
		}
	}
}

// TestTool: if systemd-creds fails, the key is stored in a plain file, and the
// result says why.
func TestTool(t *testing.T) {
	for _, test := range []struct{ name, script, reason string }{
		{"fails", fails, "systemd-creds cannot encrypt here: exit status 3"},
		{"dies", signals, "systemd-creds cannot encrypt here: signal: killed"},
		{"lies", lies, "systemd-creds does not give back what it was given"},
		{"one way", oneWay, "systemd-creds: exit status 1: no  host key"},
		{"hangs", hangs, "systemd-creds does not answer within 50ms"},
		{"a broken program", "", "systemd-creds cannot be run: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := tool(t, test.script)
			if test.script == "" {
				write(t, filepath.Join(filepath.Dir(log), "systemd-creds"), "#!/no/such/program\n", 0o700)
			}
			s, base := newStore(t)
			if test.script == hangs {
				s.creds.timeout = 50 * time.Millisecond
			}
			how := set(t, s, "openai", secret)
			want := "in " + base + "/keys/openai, readable by you only, not encrypted (" + test.reason
			if !strings.HasPrefix(how, want) || strings.Contains(how, secret) || strings.ContainsAny(how, "\n\x1b") {
				t.Errorf("kept %s\nwant %s", how, want)
			}
			holds(t, s, "openai", secret)
			if _, open := files(t, base); strings.Join(open, " ") != "base/keys/openai" {
				t.Errorf("the key is in %v", open)
			}
		})
	}
}

// TestToolGone: a key that was encrypted while systemd-creds worked.
func TestToolGone(t *testing.T) {
	tool(t, works)
	s, base := newStore(t)
	set(t, s, "openai", secret)
	noTool(t)
	want := "cannot decrypt " + base + "/keys/openai.cred: systemd-creds is not installed; set the key again with: zino auth set openai"
	if key, err := s.Get(context.Background(), "openai"); key != "" || err == nil || err.Error() != want {
		t.Errorf("%q, %v", key, err)
	}
}

// TestReal: the host's systemd-creds, if there is one. Whether it works depends
// on the host; the result must describe what was done.
func TestReal(t *testing.T) {
	s, base := newStore(t)
	how := set(t, s, "openrouter", secret)
	holds(t, s, "openrouter", secret)
	list, err := s.List()
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	_, open := files(t, base)
	if encrypted := strings.HasPrefix(how, "encrypted"); list[0].Encrypted != encrypted || encrypted != (len(open) == 0) {
		t.Errorf("kept %s; %+v; the key is in %v", how, list[0], open)
	}
	if !list[0].Encrypted {
		return
	}
	// A credential is bound to its name: it cannot pass for another account's.
	if err := os.Rename(list[0].Path, filepath.Join(s.Dir(), "gemini.cred")); err != nil {
		t.Fatal(err)
	}
	if key, err := s.Get(context.Background(), "gemini"); key != "" || err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("%q, %v", key, err)
	}
}

func FuzzLastLine(f *testing.F) {
	for _, seed := range []string{"", "\n\n", "one\ntwo\n\n", "\x1b[31mred\x00", strings.Repeat("é", 300), "a\xffb\u202e"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		line := lastLine(text)
		if len(line) > 200 || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", line)
		}
	})
}
