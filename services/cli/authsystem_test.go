package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const restartLine = "zino-rtr reads it when it starts. If it runs, restart it: systemctl try-restart zino-rtr.service\n"

// TestAuthSystem keeps, lists and removes a key of the host's services, and
// leaves the user's own store alone.
func TestAuthSystem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := filepath.Join(w.cwd, "root")
	system := []string{"--system", "--root-dir", root}
	file := root + "/etc/credstore/zino.openai"
	status, out, said := run(t, w.auth(append([]string{"set", "openai"}, system...)...), secretKey+"\n")
	want := "The key of openai is kept in " + file + ", readable by root only, not encrypted (it could be decrypted on this host only).\n" + restartLine
	if status != 0 || out != "" || said != want {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if list := w.holders(t, secretKey); len(list) != 1 || list[0] != file {
		t.Errorf("the key is in %v", list)
	}
	status, out, said = run(t, w.auth(append([]string{"list"}, system...)...), "")
	if status != 0 || said != "" || !strings.Contains(out, "PROVIDER    CREDENTIAL OF THE HOST\nanthropic   -\nopenai      not encrypted, "+file+"\n") {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
	if err := os.MkdirAll(root+"/etc/credstore.encrypted", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/etc/credstore.encrypted/zino-openai", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, _ = run(t, w.auth(append([]string{"list"}, system...)...), "")
	if want := "encrypted, " + root + "/etc/credstore.encrypted/zino-openai; not encrypted, " + file; status != 0 || !strings.Contains(out, want) {
		t.Errorf("status %d, printed %q", status, out)
	}
	for _, want := range []string{
		"The key of openai is removed from the host's credentials. It stays valid until you revoke it: https://platform.openai.com/api-keys\n" +
			"A zino-rtr that runs still has it. Restart it: systemctl try-restart zino-rtr.service\n",
		"There was no key of openai among the host's credentials.\n",
	} {
		status, out, said = run(t, w.auth(append([]string{"logout", "openai"}, system...)...), "")
		if status != 0 || out != "" || said != want {
			t.Errorf("status %d, printed %q, said %q", status, out, said)
		}
	}
	if list := w.holders(t, secretKey); len(list) > 0 || w.kept(t) != "" {
		t.Errorf("the key is in %v; the store has %s", list, w.kept(t))
	}
}

// TestAuthSystemWrong tells what is wrong and changes nothing.
func TestAuthSystemWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	blocked := filepath.Join(w.cwd, "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args   []string
		input  string
		status int
		want   string
	}{
		{[]string{"set", "openai", "--root-dir", w.cwd}, secretKey, exitUsage, "Error [usage]: zino auth set openai: --root-dir belongs to --system\n"},
		{[]string{"list", "--root-dir", w.cwd}, "", exitUsage, "Error [usage]: zino auth list: --root-dir belongs to --system\n"},
		{[]string{"set", "openai", "--system", "--root-dir", w.cwd}, "\n", exitError, "Error [internal]: no key was given, and nothing was changed: "},
		{[]string{"set", "openai", "--system", "--root-dir", w.cwd}, "a b", exitError, "Error [internal]: this is no key: "},
		{[]string{"set", "openai", "--system", "--root-dir", blocked}, secretKey, exitError, "Error [internal]: cannot make the directory for credentials: "},
		{[]string{"list", "--system", "--root-dir", blocked}, "", exitError, "Error [internal]: cannot look for credentials: "},
		{[]string{"logout", "openai", "--system", "--root-dir", blocked}, "", exitError, "Error [internal]: cannot remove the credential: "},
		{[]string{"logout", "nobody", "--system"}, "", exitUsage, "Error [usage]: zino auth logout: there is no such provider"},
	} {
		status, out, said := run(t, w.auth(test.args...), test.input)
		if status != test.status || out != "" || !strings.HasPrefix(said, test.want) || strings.Contains(said, secretKey) {
			t.Errorf("%q: status %d, printed %q, said %q", test.args, status, out, said)
		}
	}
	if _, err := os.Stat(filepath.Join(w.cwd, "etc")); !os.IsNotExist(err) {
		t.Errorf("something was made: %v", err)
	}
}

// TestKeyPlace lets root alone change what is the host's.
func TestKeyPlace(t *testing.T) {
	t.Parallel()
	const refused = "zino auth set openai --system is about /etc/credstore, which is root's: sudo zino auth set openai --system; without --system it is about your own keys"
	for _, test := range []struct {
		place keyPlace
		uid   int
		want  string
	}{
		{keyPlace{}, 1000, ""},
		{keyPlace{}, 0, ""},
		{keyPlace{system: true}, 0, ""},
		{keyPlace{system: true}, 1000, refused},
		{keyPlace{system: true, root: "/x"}, 1000, ""},
		{keyPlace{root: "/x"}, 0, "zino auth set openai: --root-dir belongs to --system"},
	} {
		got := ""
		if err := test.place.check("zino auth set openai", test.uid); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%+v, uid %d: %q, want %q", test.place, test.uid, got, test.want)
		}
	}
}
