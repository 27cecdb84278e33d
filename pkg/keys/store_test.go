package keys

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPlain: without encryption a key is stored plain, and deleted.
func TestPlain(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	holds(t, s, "openai", "")
	if list, err := s.List(); len(list) > 0 || err != nil {
		t.Errorf("before: %v, %v", list, err)
	}
	if found, err := s.Delete("openai"); found || err != nil {
		t.Errorf("deleted: %v, %v", found, err)
	}
	if _, err := os.Stat(base); err == nil {
		t.Error("reading made the directory")
	}
	path := filepath.Join(base, "keys", "openai")
	if how := set(t, s, "openai", " "+secret+"\n"); how != "in "+path+", readable by you only, not encrypted (systemd-creds is not installed)" {
		t.Errorf("kept %s", how)
	}
	holds(t, s, "openai", secret)
	holds(t, s, "gemini", "")
	modes, open := files(t, base)
	if want := "base drwx------\nbase/keys drwx------\nbase/keys/openai -rw-------\n"; modes != want || len(open) != 1 {
		t.Errorf("files:\n%swant\n%s; the key is in %v", modes, want, open)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || list[0].Name != "openai" || list[0].Encrypted || list[0].Path != path || list[0].Modified.IsZero() {
		t.Errorf("list: %+v, %v", list, err)
	}
	if found, err := s.Delete("openai"); !found || err != nil {
		t.Errorf("deleted: %v, %v", found, err)
	}
	holds(t, s, "openai", "")
	if _, open := files(t, base); len(open) > 0 {
		t.Errorf("after it was deleted the key is in %v", open)
	}
}

// TestForms: each form replaces the other.
func TestForms(t *testing.T) {
	tool(t, works)
	s, base := newStore(t)
	plain := *s
	plain.creds.timeout = 0 // no time for the tool
	for i, test := range []struct {
		store *Store
		want  string
	}{{s, "openai.cred"}, {&plain, "openai"}, {s, "openai.cred"}, {s, "openai.cred"}} {
		key := secret + strings.Repeat("x", i)
		set(t, test.store, "openai", key)
		holds(t, s, "openai", key)
		entries, err := os.ReadDir(filepath.Join(base, "keys"))
		if err != nil || len(entries) != 1 || entries[0].Name() != test.want {
			t.Errorf("%d: %v, %v", i, entries, err)
		}
	}
}

// TestNewerForm: after a crash between writing one form and removing the other,
// the newer one counts.
func TestNewerForm(t *testing.T) {
	tool(t, works)
	s, base := newStore(t)
	set(t, s, "openai", "sealed")
	path := filepath.Join(base, "keys", "openai")
	write(t, path, "plain", 0o600)
	for _, test := range []struct {
		age  time.Duration
		want string
	}{{time.Hour, "sealed"}, {-time.Hour, "plain"}} {
		at := time.Now().Add(-test.age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		holds(t, s, "openai", test.want)
		if list, err := s.List(); err != nil || len(list) != 1 || list[0].Encrypted != (test.want == "sealed") {
			t.Errorf("%s: %+v, %v", test.want, list, err)
		}
	}
	if found, err := s.Delete("openai"); !found || err != nil {
		t.Errorf("deleted: %v, %v", found, err)
	}
	holds(t, s, "openai", "")
}

// TestDeleteLeftover: Delete removes what a killed write left, and no files of
// other accounts.
func TestDeleteLeftover(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	set(t, s, "openai", "one")
	set(t, s, "openrouter", "two")
	for _, name := range []string{".openai123", ".openai.cred456", ".openai-old7", ".openrouter8"} {
		write(t, filepath.Join(base, "keys", name), secret, 0o600)
	}
	if found, err := s.Delete("openai"); !found || err != nil {
		t.Errorf("deleted: %v, %v", found, err)
	}
	if _, open := files(t, base); strings.Join(open, " ") != "base/keys/.openai-old7 base/keys/.openrouter8" {
		t.Errorf("left: %v", open)
	}
	holds(t, s, "openrouter", "two")
	if list, err := s.List(); err != nil || len(list) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
}

func TestNotSet(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	for _, test := range []struct{ name, key, want string }{
		{"openai", "", "there is no key to keep: it is empty"},
		{"openai", " \n", "there is no key to keep: it is empty"},
		{"openai", secret + " " + secret, "this is no key: it has a blank"},
		{"../openai", secret, `no account can be called "../openai"`},
		{"", secret, `no account can be called ""`},
		{"Openai", secret, `no account can be called "Openai"`},
	} {
		how, err := s.Set(context.Background(), test.name, test.key)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), secret) || how != "" {
			t.Errorf("%q: %q, %v", test.name, how, err)
		}
	}
	for _, name := range []string{"..", ".openai1", "a/b", ""} {
		if _, err := s.Get(context.Background(), name); err == nil {
			t.Errorf("%q can be read", name)
		}
		if _, err := s.Delete(name); err == nil {
			t.Errorf("%q can be deleted", name)
		}
	}
	write(t, base, "a file", 0o600)
	if _, err := s.Set(context.Background(), "openai", secret); err == nil || !strings.HasPrefix(err.Error(), "cannot make the directory for keys: ") {
		t.Errorf("no place: %v", err)
	}
	if _, err := s.Get(context.Background(), "openai"); err == nil {
		t.Error("no error for a file in place of the directory")
	}
}

// TestCannotWrite: the error if something is in the place of the file.
func TestCannotWrite(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	path := filepath.Join(base, "keys", "openai")
	write(t, filepath.Join(path, "in-the-way"), "", 0o600)
	if how, err := s.Set(context.Background(), "openai", secret); err == nil || !strings.HasPrefix(err.Error(), "cannot write "+path+": ") || how != "" {
		t.Errorf("%q, %v", how, err)
	}
	if _, err := s.Delete("openai"); err == nil || !strings.HasPrefix(err.Error(), "cannot remove "+path+": ") {
		t.Errorf("%v", err)
	}
	if _, open := files(t, base); len(open) > 0 {
		t.Errorf("the key was left in %v", open)
	}
}

// TestInterrupted: an interrupted Set changes nothing.
func TestInterrupted(t *testing.T) {
	log := tool(t, hangs)
	s, base := newStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for _, err := os.Stat(log); err != nil && ctx.Err() == nil; _, err = os.Stat(log) {
		}
		cancel()
	}()
	how, err := s.Set(ctx, "openai", secret)
	if how != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", how, err)
	}
	if modes, open := files(t, base); strings.Count(modes, "\n") != 2 || len(open) > 0 {
		t.Errorf("files:\n%sthe key is in %v", modes, open)
	}
}

// TestChanging: while a key and its form change, readers always get a key.
func TestChanging(t *testing.T) {
	tool(t, works)
	s, _ := newStore(t)
	plain := *s
	plain.creds.timeout = 0
	set(t, s, "openai", "sealed")
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				if key, err := s.Get(context.Background(), "openai"); key != "sealed" && key != "plain" || err != nil {
					t.Errorf("%q, %v", key, err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 15 {
		set(t, &plain, "openai", "plain")
		set(t, s, "openai", "sealed")
	}
	close(done)
	wg.Wait()
}
