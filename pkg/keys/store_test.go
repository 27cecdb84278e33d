package keys

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"zino/pkg/zinotest"
)

// TestPlain: without encryption a key is stored plain, and deleted.
func TestPlain(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	getKey(t, s, "openai", "")
	if list, err := s.List(); len(list) > 0 || err != nil {
		t.Errorf("before: %v, %v", list, err)
	}
	deleted(t, s, "openai", false)
	if _, err := os.Stat(base); err == nil {
		t.Error("reading made the directory")
	}
	path := base + "/keys/openai"
	zinotest.Equal(t, "kept", set(t, s, "openai", " "+secret+"\n"), "in "+path+", readable by you only, not encrypted (systemd-creds is not installed)")
	getKey(t, s, "openai", secret)
	getKey(t, s, "gemini", "")
	modes, open := files(t, base)
	zinotest.Equal(t, "files", modes, "base drwx------\nbase/keys drwx------\nbase/keys/openai -rw-------\n")
	zinotest.Equal(t, "files with the key", open, "base/keys/openai")
	list, err := s.List()
	if err != nil || len(list) != 1 || list[0].Name != "openai" || list[0].Encrypted || list[0].Path != path || list[0].Modified.IsZero() {
		t.Errorf("list: %+v, %v", list, err)
	}
	deleted(t, s, "openai", true)
	getKey(t, s, "openai", "")
	_, open = files(t, base)
	zinotest.Equal(t, "files with the deleted key", open, "")
}

// TestEncrypted: the key reaches systemd-creds only through its standard input,
// and its output is stored.
func TestEncrypted(t *testing.T) {
	for user, want := range map[bool]string{false: "decrypt --name=zino-openai - -\n", true: "--user decrypt --name=zino-openai - -\n"} {
		t.Run(strings.Fields(want)[0], func(t *testing.T) {
			log := tool(t, works)
			s, base := newStore(t)
			s.creds.user = user
			t.Setenv("OPENAI_API_KEY", secret)
			path := base + "/keys/openai.cred"
			zinotest.Equal(t, "kept", set(t, s, "openai", secret), "encrypted with systemd-creds in "+path)
			modes, open := files(t, base)
			zinotest.Equal(t, "files", modes, "base drwx------\nbase/keys drwx------\nbase/keys/openai.cred -rw-------\n")
			zinotest.Equal(t, "files with the key", open, "")
			getKey(t, s, "openai", secret)
			if list, err := s.List(); err != nil || len(list) != 1 || !list[0].Encrypted || list[0].Path != path {
				t.Errorf("list: %+v, %v", list, err)
			}
			given := zinotest.Read(t, log)
			if strings.Contains(given, secret) || strings.Count("\n"+given, "\n"+want) != 2 {
				t.Errorf("systemd-creds was given %s", given)
			}
			noTool(t) // removed after it encrypted the key
			refused(t, "without systemd-creds", second(s.Get(t.Context(), "openai")),
				"cannot decrypt "+path+": systemd-creds is not installed; set the key again with: zino auth set openai")
		})
	}
}

// TestTool: if systemd-creds fails, the key is stored in a plain file, and the
// result says why.
func TestTool(t *testing.T) {
	for name, test := range map[string]struct{ script, reason string }{
		"fails":            {fails, "systemd-creds cannot encrypt here: exit status 3"},
		"dies":             {signals, "systemd-creds cannot encrypt here: signal: killed"},
		"lies":             {lies, "systemd-creds does not give back what it was given"},
		"one way":          {oneWay, "systemd-creds: exit status 1: no  host key"},
		"hangs":            {hangs, "systemd-creds does not answer within 50ms"},
		"a broken program": {"", "systemd-creds cannot be run: "},
	} {
		t.Run(name, func(t *testing.T) {
			log := tool(t, test.script)
			if test.script == "" {
				write(t, strings.TrimSuffix(log, "log")+"systemd-creds", "#!/no/such/program\n", 0o700)
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
			getKey(t, s, "openai", secret)
			_, open := files(t, base)
			zinotest.Equal(t, "files with the key", open, "base/keys/openai")
		})
	}
}

// TestReal uses the host's systemd-creds. Whether that works depends on the host;
// the result must describe what was done.
func TestReal(t *testing.T) {
	s, base := newStore(t)
	how := set(t, s, "openrouter", secret)
	getKey(t, s, "openrouter", secret)
	list, err := s.List()
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	_, open := files(t, base)
	if encrypted := strings.HasPrefix(how, "encrypted"); list[0].Encrypted != encrypted || encrypted != (open == "") {
		t.Errorf("kept %s; %+v; the key is in %s", how, list[0], open)
	}
	if list[0].Encrypted { // bound to its name: it is not valid for another account
		zinotest.Must(t, os.Rename(list[0].Path, s.Dir()+"/gemini.cred"))
		refused(t, "another account", second(s.Get(t.Context(), "gemini")), "cannot decrypt ")
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

// TestForms: each form replaces the other. After a crash between writing one and
// removing the other, the newer one counts.
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
		getKey(t, s, "openai", key)
		zinotest.Equal(t, "files", zinotest.Names(t, base+"/keys"), test.want)
	}
	set(t, s, "openai", "sealed")
	zinotest.Write(t, base+"/keys/openai", "plain")
	for want, at := range map[string]time.Time{"sealed": time.Now().Add(-time.Hour), "plain": time.Now().Add(time.Hour)} {
		zinotest.Must(t, os.Chtimes(base+"/keys/openai", at, at))
		getKey(t, s, "openai", want)
		if list, err := s.List(); err != nil || len(list) != 1 || list[0].Encrypted != (want == "sealed") {
			t.Errorf("%s: %+v, %v", want, list, err)
		}
	}
	deleted(t, s, "openai", true)
	getKey(t, s, "openai", "")
}

// TestDeleteLeftover: Delete removes what a killed write left, and no files of
// other accounts.
func TestDeleteLeftover(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	set(t, s, "openai", "one")
	set(t, s, "openrouter", "two")
	for _, name := range []string{".openai123", ".openai.cred456", ".openai-old7", ".openrouter8"} {
		zinotest.Write(t, s.Dir()+"/"+name, secret)
	}
	deleted(t, s, "openai", true)
	_, open := files(t, base)
	zinotest.Equal(t, "left", open, "base/keys/.openai-old7 base/keys/.openrouter8")
	getKey(t, s, "openrouter", "two")
	if list, err := s.List(); err != nil || len(list) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
}

// TestStoreErrors: an error of the store does not repeat the key, and leaves no
// file with it.
func TestStoreErrors(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	checkSet(t, s)
	for _, name := range []string{"..", ".openai1", "a/b", ""} {
		refused(t, "get "+name, second(s.Get(t.Context(), name)), "no account can be called")
	}
	path := base + "/keys/openai"
	zinotest.Write(t, path+"/in-the-way", "")
	refused(t, "a directory in the place of the file", second(s.Set(t.Context(), "openai", secret)), "cannot write "+path+": ")
	refused(t, "delete", second(s.Delete("openai")), "cannot remove "+path+": ")
	zinotest.Must(t, os.RemoveAll(path))
	set(t, s, "openai", secret+"2")
	zinotest.Must(t, os.Chmod(s.Dir(), 0o750))
	for what, err := range map[string]error{
		"set": second(s.Set(t.Context(), "openai", secret)), "delete": second(s.Delete("openai")), "list": second(s.List()),
	} {
		refused(t, what+" in a directory open to others", err, s.Dir()+", where keys are kept, is open to other users: chmod 700 "+s.Dir())
	}
	zinotest.Equal(t, "the key", zinotest.Read(t, path), secret+"2\n")

	zinotest.Must(t, os.RemoveAll(base))
	zinotest.Write(t, base, "a file")
	refused(t, "a file in the place of the base", second(s.Set(t.Context(), "openai", secret)), "cannot make the directory for keys: ")
	refused(t, "get", second(s.Get(t.Context(), "openai")), "cannot open the directory of keys: ")
}

// TestUnsafeFiles: files that other users can write or read are not read.
func TestUnsafeFiles(t *testing.T) {
	tool(t, oneWay)
	for _, test := range []struct {
		name string
		make func(dir, key string) error // key is the path of openai's key
		want string
	}{
		{"a directory open to all", func(dir, _ string) error { return os.Chmod(dir, 0o755) }, "DIR, where keys are kept, is open to other users: chmod 700 DIR"},
		{"a file for the group", func(_, key string) error { return os.Chmod(key, 0o640) }, "cannot read DIR/openai: it is open to other users: chmod 600 DIR/openai"},
		{"a link to the outside", func(_, key string) error { return errors.Join(os.Remove(key), os.Symlink("/etc/hostname", key)) }, "cannot read DIR/openai: "},
		{"a link upwards", func(_, key string) error { return errors.Join(os.Remove(key), os.Symlink("../outside", key)) }, "cannot read DIR/openai: "},
		{"a pipe", func(_, key string) error { return errors.Join(os.Remove(key), syscall.Mkfifo(key, 0o600)) }, "cannot read DIR/openai: it is not a regular file"},
		{"a directory", func(_, key string) error { return errors.Join(os.Remove(key), os.Mkdir(key, 0o700)) }, "cannot read DIR/openai: it is not a regular file"},
		{"too large", func(_, key string) error { return os.Truncate(key, maxFile+1) }, "cannot read DIR/openai: it is larger than 65536 bytes"},
		{"two words", func(_, key string) error { return os.WriteFile(key, []byte(secret+" and more"), 0o600) }, "DIR/openai contains no valid key: it has a blank"},
		{"not to be decrypted", func(_, key string) error { return os.Rename(key, key+".cred") }, "cannot decrypt DIR/openai.cred: systemd-creds: exit status 1: no  host key; set the key again with: zino auth set openai"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, base := newStore(t)
			zinotest.WriteFiles(t, base, map[string]string{"outside": secret, "keys/openai": secret})
			zinotest.Must(t, test.make(s.Dir(), s.Dir()+"/openai"))
			key, err := s.Get(t.Context(), "openai")
			zinotest.Equal(t, "key", key, "")
			refused(t, test.name, err, strings.ReplaceAll(test.want, "DIR", s.Dir()))
		})
	}
}

// TestSetOverLink: Set replaces a link, and does not follow it.
func TestSetOverLink(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	zinotest.WriteFiles(t, base, map[string]string{"outside": "precious", "keys/x": ""})
	zinotest.Must(t, os.Symlink(base+"/outside", s.Dir()+"/openai"))
	set(t, s, "openai", secret)
	getKey(t, s, "openai", secret)
	zinotest.Equal(t, "outside", zinotest.Read(t, base+"/outside"), "precious")
}

// TestInterrupted: an interrupted Set changes nothing.
func TestInterrupted(t *testing.T) {
	log := tool(t, hangs)
	s, base := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for _, err := os.Stat(log); err != nil && ctx.Err() == nil; _, err = os.Stat(log) {
		}
		cancel()
	}()
	if how, err := s.Set(ctx, "openai", secret); how != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", how, err)
	}
	if modes, open := files(t, base); strings.Count(modes, "\n") != 2 || open != "" {
		t.Errorf("files:\n%sthe key is in %s", modes, open)
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

// TestStamp: the stamp changes with each change, and only then.
func TestStamp(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	path := base + "/keys/openai"
	seen := map[string]string{s.Stamp(): "nothing there"}
	zinotest.Equal(t, "stamp without a directory", s.Stamp(), "")
	for _, step := range []struct {
		name   string
		change func() error
	}{
		{"set", func() error { return second(s.Set(t.Context(), "openai", "one")) }},
		{"set again", func() error { return second(s.Set(t.Context(), "openai", "two")) }},
		{"another account", func() error { return second(s.Set(t.Context(), "gemini", "two")) }},
		{"edited in place", func() error { return os.WriteFile(path, []byte("three and more"), 0o600) }},
		{"opened to others", func() error { return os.Chmod(path, 0o644) }},
		{"the directory opened", func() error { return os.Chmod(s.Dir(), 0o755) }},
		{"the directory closed", func() error { return os.Chmod(s.Dir(), 0o700) }},
		{"deleted", func() error { return second(s.Delete("openai")) }},
		{"no directory", func() error { return errors.Join(os.RemoveAll(base), os.WriteFile(base, nil, 0o600)) }},
	} {
		zinotest.Must(t, step.change())
		stamp := s.Stamp()
		if before := seen[stamp]; before != "" {
			t.Errorf("%s: the stamp is that of: %s", step.name, before)
		}
		seen[stamp] = step.name
		zinotest.Equal(t, "stamp without a change after "+step.name, s.Stamp(), stamp)
	}
}
