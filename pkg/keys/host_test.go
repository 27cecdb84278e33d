package keys

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// newHost returns a host below a directory of the test, for which systemd-creds
// encrypts if it is installed.
func newHost(t *testing.T) (h *Host, dir string) {
	t.Helper()
	dir = zinotest.Dir(t)
	h = OpenHost(dir)
	h.seals = true
	return h, dir
}

// TestHost: a key has one form, for root only, where systemd looks for the
// credentials of a unit.
func TestHost(t *testing.T) {
	h, dir := newHost(t)
	base := filepath.Base(dir)
	for _, test := range []struct{ name, script, how, files string }{
		{
			"encrypted", works, "encrypted with systemd-creds in " + dir + "/etc/credstore.encrypted/zino-openai",
			"etc/credstore.encrypted drwx------\n" + base + "/etc/credstore.encrypted/zino-openai -rw-------\n",
		},
		{
			"plain", fails, "in " + dir + "/etc/credstore/zino.openai, readable by root only, not encrypted (systemd-creds cannot encrypt here: exit status 3)",
			"etc/credstore drwx------\n" + base + "/etc/credstore/zino.openai -rw-------\n" + base + "/etc/credstore.encrypted drwx------\n",
		},
		{
			"encrypted again", works, "encrypted with systemd-creds in " + dir + "/etc/credstore.encrypted/zino-openai",
			"etc/credstore drwx------\n" + base + "/etc/credstore.encrypted drwx------\n" + base + "/etc/credstore.encrypted/zino-openai -rw-------\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := tool(t, test.script)
			how, err := h.Set(t.Context(), "openai", " "+secret+"\n")
			zinotest.Must(t, err)
			zinotest.Equal(t, "kept", how, test.how)
			modes, open := files(t, dir)
			zinotest.Equal(t, "files", modes, base+" drwx------\n"+base+"/etc drwxr-xr-x\n"+base+"/"+test.files)
			if (open != "") != (test.script == fails) {
				t.Errorf("the key is in %s", open)
			}
			given := zinotest.Read(t, log)
			if strings.Contains(given, secret) || !strings.Contains(given, "encrypt --name=zino-openai - -\n") || strings.Contains(given, "--user") {
				t.Errorf("systemd-creds was given %s", given)
			}
			if list, err := h.List(); err != nil || len(list) != 1 || list[0].Name != "openai" || list[0].Encrypted != (test.script == works) {
				t.Errorf("list: %+v, %v", list, err)
			}
		})
	}
	deleted(t, h, "openai", true)
	deleted(t, h, "openai", false)
	// Both forms are listed and removed, also if another program made the second.
	for _, name := range []string{"credstore/zino.gemini", "credstore.encrypted/zino-gemini", "credstore/zino.openai", "credstore/other"} {
		zinotest.Write(t, dir+"/etc/"+name, secret)
	}
	list, err := h.List()
	if err != nil || len(list) != 3 || list[0].Name != "openai" || !list[1].Encrypted || list[2].Encrypted || list[2].Path != dir+"/etc/credstore/zino.gemini" {
		t.Errorf("list: %+v, %v", list, err)
	}
	deleted(t, h, "gemini", true)
	zinotest.Equal(t, "left", zinotest.Names(t, dir+"/etc/credstore"), "other zino.openai")
	zinotest.Equal(t, "left encrypted", zinotest.Names(t, dir+"/etc/credstore.encrypted"), "")
}

// TestHostElsewhere: keys are encrypted for this host only.
func TestHostElsewhere(t *testing.T) {
	tool(t, works)
	_, dir := newHost(t)
	how, err := OpenHost(dir).Set(t.Context(), "openai", secret)
	zinotest.Must(t, err)
	zinotest.Equal(t, "kept", how, "in "+dir+"/etc/credstore/zino.openai, readable by root only, not encrypted (it could be decrypted on this host only)")
	here := OpenHost("")
	if _, plain := forms("x"); here.path(plain) != "/etc/credstore/zino.x" || !here.seals {
		t.Errorf("this host: %+v", here)
	}
}

func TestHostErrors(t *testing.T) {
	noTool(t)
	h, dir := newHost(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	checkSet(t, h)
	refused(t, "canceled", second(h.Set(canceled, "openai", secret)), "context canceled")
	zinotest.Equal(t, "files made", zinotest.Names(t, dir), "")

	zinotest.Write(t, dir+"/etc", "a file")
	refused(t, "a file in the place of etc", second(h.Set(t.Context(), "openai", secret)), "cannot make the directory for credentials: ")
	refused(t, "list", second(h.List()), "cannot look for credentials: ")
	zinotest.Must(t, errors.Join(os.Remove(dir+"/etc"), os.MkdirAll(dir+"/etc/credstore/zino.openai/x", 0o700)))
	refused(t, "a directory in the place of the file", second(h.Set(t.Context(), "openai", secret)), "cannot write "+dir+"/etc/credstore/zino.openai: ")
	refused(t, "delete", second(h.Delete("openai")), "cannot remove the credential: ")
}
