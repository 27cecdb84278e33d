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
// encrypts if there is one.
func newHost(t *testing.T) (h *Host, dir string) {
	t.Helper()
	dir = zinotest.Dir(t)
	h = OpenHost(dir)
	h.seals = true
	return h, dir
}

// TestHost: one key has one form, for root only, where systemd looks for the
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
			if how != test.how || err != nil {
				t.Errorf("kept %s, %v\nwant %s", how, err, test.how)
			}
			modes, open := files(t, dir)
			if want := base + " drwx------\n" + base + "/etc drwxr-xr-x\n" + base + "/" + test.files; modes != want {
				t.Errorf("files:\n%swant\n%s", modes, want)
			}
			if (len(open) > 0) != (test.script == fails) {
				t.Errorf("the key is in %v", open)
			}
			given, err := os.ReadFile(log)
			if err != nil || strings.Contains(string(given), secret) || !strings.Contains(string(given), "encrypt --name=zino-openai - -\n") || strings.Contains(string(given), "--user") {
				t.Errorf("the tool was given %s, %v", given, err)
			}
			if list, err := h.List(); err != nil || len(list) != 1 || list[0].Name != "openai" || list[0].Encrypted != (test.script == works) {
				t.Errorf("list: %+v, %v", list, err)
			}
		})
	}
	for _, want := range []bool{true, false} {
		if found, err := h.Delete("openai"); found != want || err != nil {
			t.Errorf("delete: %v, %v", found, err)
		}
	}
	if list, err := h.List(); err != nil || len(list) != 0 {
		t.Errorf("list: %+v, %v", list, err)
	}
}

// TestHostBoth: both forms are listed and removed, also if another program made
// the second one.
func TestHostBoth(t *testing.T) {
	h, dir := newHost(t)
	write(t, dir+"/etc/credstore/zino.gemini", secret, 0o600)
	write(t, dir+"/etc/credstore.encrypted/zino-gemini", "x", 0o600)
	write(t, dir+"/etc/credstore/zino.openai", secret, 0o600)
	write(t, dir+"/etc/credstore/other", secret, 0o600)
	list, err := h.List()
	if err != nil || len(list) != 3 || list[0].Name != "openai" || !list[1].Encrypted || list[2].Encrypted || list[2].Path != dir+"/etc/credstore/zino.gemini" {
		t.Errorf("list: %+v, %v", list, err)
	}
	if found, err := h.Delete("gemini"); !found || err != nil {
		t.Errorf("delete: %v, %v", found, err)
	}
	if list, err := h.List(); err != nil || len(list) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
	if _, err := os.Stat(dir + "/etc/credstore/other"); err != nil {
		t.Errorf("another program's credential is gone: %v", err)
	}
}

// TestHostElsewhere: keys are encrypted for this host only.
func TestHostElsewhere(t *testing.T) {
	tool(t, works)
	_, dir := newHost(t)
	how, err := OpenHost(dir).Set(t.Context(), "openai", secret)
	if want := "in " + dir + "/etc/credstore/zino.openai, readable by root only, not encrypted (it could be decrypted on this host only)"; how != want || err != nil {
		t.Errorf("kept %s, %v", how, err)
	}
	here := OpenHost("")
	if _, plain := forms("x"); here.path(plain) != "/etc/credstore/zino.x" || !here.seals {
		t.Errorf("this host: %+v", here)
	}
}

// TestHostRefuses: invalid keys change nothing, and errors do not repeat them.
func TestHostRefuses(t *testing.T) {
	noTool(t)
	h, dir := newHost(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx       context.Context
		name, key string
		want      string
	}{
		{t.Context(), "openai", "two " + secret, "this is no key: "},
		{t.Context(), "openai", " \n", "there is no key to keep"},
		{t.Context(), "../x", secret, "no account can be called"},
		{canceled, "openai", secret, "context canceled"},
	} {
		how, err := h.Set(test.ctx, test.name, test.key)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), secret) || how != "" {
			t.Errorf("%s: %q, %v", test.want, how, err)
		}
	}
	if _, err := h.Delete("../x"); err == nil {
		t.Error("a path is taken for a name")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it made %v, %v", left, err)
	}
}

// TestHostInTheWay: errors of the directories are reported.
func TestHostInTheWay(t *testing.T) {
	noTool(t)
	h, dir := newHost(t)
	write(t, dir+"/etc", "a file", 0o600)
	if _, err := h.Set(t.Context(), "openai", secret); err == nil || !strings.HasPrefix(err.Error(), "cannot make the directory for credentials: ") {
		t.Errorf("a file in the place of etc: %v", err)
	}
	if _, err := h.List(); err == nil {
		t.Error("a file in the place of etc is an empty list")
	}
	if err := errors.Join(os.Remove(dir+"/etc"), os.MkdirAll(dir+"/etc/credstore/zino.openai/x", 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Set(t.Context(), "openai", secret); err == nil || !strings.HasPrefix(err.Error(), "cannot write "+dir+"/etc/credstore/zino.openai: ") {
		t.Errorf("a directory in the place of the file: %v", err)
	}
	if _, err := h.Delete("openai"); err == nil || !strings.HasPrefix(err.Error(), "cannot remove the credential: ") {
		t.Errorf("delete: %v", err)
	}
}
