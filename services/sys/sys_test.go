package sys

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestWholePrompt(t *testing.T) {
	b := newEnv(t, "P=%%PERSONALITY%%\nT:\n%%TOOL_LIST%%\nS:\n%%SKILL_LINES%%\nN=%%MAX_ITERATIONS%% M=%%SOFT_MEMORIES%% %%X%%")
	b.cfg.Sys.Personality, b.cfg.Agent.MaxIterations = "dry %%SOFT_MEMORIES%%", 7
	zinotest.Write(t, filepath.Join(b.cfg.Tools.Dir, "python.json"), `{"meta":{"executor":"python3"}}`)
	zinotest.Write(t, filepath.Join(b.cfg.Skills.Dir, "disk.json"), `{"meta":{"static_analysis":"shellcheck"}}`)
	b.mem.put("likes <b>")
	b.startMem()
	b.start()
	b.want("P=dry %%SOFT_MEMORIES%%\nT:\n  - \"execute_python3\": python3 executor\nS:\n" +
		"  - \"disk\": bash executor, static analysis: shellcheck\nN=7 M=likes <b> %%X%%")
}

func TestEmptyTemplate(t *testing.T) {
	b := newEnv(t, "")
	b.startMem()
	b.start()
	b.want("")
	zinotest.Must(t, os.Remove(b.cfg.Sys.Template))
	if got, err := b.reload(); got != "" || err != nil {
		t.Errorf("missing template: %q, %v", got, err)
	}
	zinotest.Write(t, b.cfg.Sys.Template, "now")
	if got, err := b.set("x"); got != "now" || err != nil {
		t.Errorf("set_soft_memory did not read the template: %q, %v", got, err)
	}
}

func TestReloadReadsEverything(t *testing.T) {
	b := newEnv(t, "old")
	b.startMem()
	b.start()
	if _, err := b.set("soft"); err != nil {
		t.Fatal(err)
	}
	zinotest.Write(t, b.cfg.Sys.Template, "new %%SOFT_MEMORIES%%\n%%TOOL_LIST%%")
	zinotest.Write(t, filepath.Join(b.cfg.Tools.Dir, "lua.json"), `{}`)
	got, err := b.reload()
	if want := "new soft\n  - \"execute_lua\": lua executor"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	b.want(got)
}

// TestBadTemplate checks that a template that cannot be read leaves prompt and
// soft memory unchanged.
func TestBadTemplate(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"is a directory": func(t *testing.T, path string) {
			zinotest.Must(t, os.Remove(path))
			zinotest.Must(t, os.Mkdir(path, 0o700))
		},
		"is not UTF-8":   func(t *testing.T, path string) { zinotest.Write(t, path, "a\xff") },
		"is larger than": func(t *testing.T, path string) { zinotest.Must(t, os.Truncate(path, maxTemplate+1)) },
		"too many levels": func(t *testing.T, path string) {
			zinotest.Must(t, os.Remove(path))
			zinotest.Must(t, os.Symlink("SYSTEM.md", path))
		},
		"is not a regular file": func(t *testing.T, path string) {
			zinotest.Must(t, os.Remove(path))
			zinotest.Must(t, os.Symlink("/dev/null", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, "old %%SOFT_MEMORIES%%")
			b.mem.put("one")
			b.startMem()
			b.start()
			b.want("old one")
			spoil(t, b.cfg.Sys.Template)
			_, err := b.reload()
			if err == nil || !strings.Contains(err.Error(), "sys reload: template "+b.cfg.Sys.Template) || !strings.Contains(err.Error(), name) {
				t.Errorf("reload: %v", err)
			}
			if _, err := b.set("two"); err == nil {
				t.Error("set_soft_memory did not report the template")
			}
			b.want("old one")
			if p := b.stats().Problems; len(p) != 1 || !strings.Contains(p[0], name) {
				t.Errorf("problems: %q", p)
			}
			zinotest.Must(t, os.RemoveAll(b.cfg.Sys.Template))
			zinotest.Write(t, b.cfg.Sys.Template, "repaired")
			zinotest.Eventually(t, "the repaired template", func() bool { return b.get() == "repaired" })
			if p := b.stats().Problems; len(p) != 0 {
				t.Errorf("problems after the repair: %q", p)
			}
		})
	}
}

// TestUnreadableTemplate checks that requests fail only if they need a template that
// has never been read.
func TestUnreadableTemplate(t *testing.T) {
	b := newEnv(t, "")
	zinotest.Must(t, os.Remove(b.cfg.Sys.Template))
	zinotest.Must(t, os.Mkdir(b.cfg.Sys.Template, 0o700))
	zinotest.Write(t, b.cfg.Sys.SessionTemplate, "session")
	b.startMem()
	b.start()
	want := "template " + b.cfg.Sys.Template + ": is a directory: fix it, or set [sys] template"
	if _, err := b.ask(proto.GetPrompt{}); !errors.Is(err, proto.ErrInvalid) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if p := b.stats().Problems; len(p) != 1 || p[0] != want {
		t.Errorf("problems: %q", p)
	}
	for _, req := range []proto.GetPrompt{{Session: true}, {SystemPrompt: new("session")}} {
		if reply, err := b.ask(req); err != nil || reply.Content != "session" {
			t.Errorf("%+v: got %+v, %v", req, reply, err)
		}
	}
	zinotest.Must(t, os.Remove(b.cfg.Sys.Template))
	zinotest.Write(t, b.cfg.Sys.Template, "fixed")
	zinotest.Eventually(t, "the fixed template", func() bool {
		reply, err := b.ask(proto.GetPrompt{})
		return err == nil && reply.Content == "fixed"
	})
}

// TestMissingTemplate checks that the prompt is empty, and a plain message gets
// a warning. A session, and a template configured as "", get none.
func TestMissingTemplate(t *testing.T) {
	b := newEnv(t, "")
	zinotest.Must(t, os.Remove(b.cfg.Sys.Template))
	b.startMem()
	b.start()
	warning := "no system prompt is sent: the template " + b.cfg.Sys.Template + " does not exist: install Zino with its files, or set [sys] template"
	reply, err := b.ask(proto.GetPrompt{})
	if err != nil || reply.Content != "" || !reply.TemplateMissing || !slices.Equal(reply.Warnings, []string{warning}) {
		t.Errorf("plain: %+v, %v", reply, err)
	}
	reply, err = b.ask(proto.GetPrompt{Session: true})
	if err != nil || reply.Content != "" || !reply.TemplateMissing || reply.Template != b.cfg.Sys.SessionTemplate || reply.Warnings != nil {
		t.Errorf("session: %+v, %v", reply, err)
	}
	if info := b.stats().Info; info["template"] != "none ("+b.cfg.Sys.Template+" is missing)" {
		t.Errorf("info: %v", info)
	}
	b.stop()
	b.cfg.Sys.Template = ""
	b.start()
	if reply, err := b.ask(proto.GetPrompt{}); err != nil || reply.Content != "" || reply.Warnings != nil {
		t.Errorf("template = \"\": %+v, %v", reply, err)
	}
}

// TestSessionTemplate checks that the placeholders of a turn are filled for each
// request, in the same pass as the others.
func TestSessionTemplate(t *testing.T) {
	b := newEnv(t, "plain")
	root := b.home()
	zinotest.Write(t, b.cfg.Sys.SessionTemplate, "%%DIRECTORY%%|%%GIT%%|%%SANDBOX%%|%%NETWORK%%|%%PERSONALITY%%|%%X%%\n\n%%SOFT_MEMORIES%%\n")
	b.cfg.Sys.Personality, b.cfg.Exc.Sandbox = "%%DIRECTORY%%", "read-only"
	b.startMem()
	b.start()
	for _, test := range []struct {
		req  proto.GetPrompt
		want string
	}{
		{proto.GetPrompt{Root: root}, root + "|no repository|read-only, commands can write nothing|no|%%DIRECTORY%%|%%X%%"},
		{proto.GetPrompt{Root: root, Sandbox: "off"}, root + "|no repository|off, commands have all rights of this user|yes|%%DIRECTORY%%|%%X%%"},
		{proto.GetPrompt{Network: new(true)}, "none: commands run in the service's own directory|no repository|read-only, commands can write nothing|yes|%%DIRECTORY%%|%%X%%"},
	} {
		test.req.Session = true
		reply, err := b.ask(test.req)
		if err != nil || reply.Content != test.want || reply.Template != b.cfg.Sys.SessionTemplate || reply.TemplateMissing {
			t.Errorf("%+v: got %+v, %v, want %q", test.req, reply, err, test.want)
		}
	}
	zinotest.Must(t, os.Mkdir(filepath.Join(root, ".git"), 0o700))
	zinotest.Write(t, filepath.Join(root, ".git", "HEAD"), "ref: refs/heads/main\n")
	if reply, err := b.ask(proto.GetPrompt{Session: true, Root: root}); err != nil || !strings.HasPrefix(reply.Content, root+"|branch main|") {
		t.Errorf("got %+v, %v", reply, err)
	}
	b.want("plain")
}

// TestEditsAreNoticed checks that edits of files take effect without reload.
func TestEditsAreNoticed(t *testing.T) {
	b := newEnv(t, "1 %%TOOL_LIST%%")
	b.startMem()
	b.start()
	b.want("1   (none loaded)")
	for _, step := range []struct {
		what string
		edit func()
		want string
	}{
		{"tool", func() { zinotest.Write(t, filepath.Join(b.cfg.Tools.Dir, "sh.json"), `{}`) }, "1   - \"execute_sh\": sh executor"},
		{"written in place", func() { zinotest.Write(t, b.cfg.Sys.Template, "2") }, "2"},
		{"renamed over", func() {
			zinotest.Write(t, b.cfg.Sys.Template+"~", "3")
			zinotest.Must(t, os.Rename(b.cfg.Sys.Template+"~", b.cfg.Sys.Template))
		}, "3"},
		{"deleted", func() { zinotest.Must(t, os.Remove(b.cfg.Sys.Template)) }, ""},
		{"back again", func() { zinotest.Write(t, b.cfg.Sys.Template, "4") }, "4"},
		{"same size, same time", func() {
			info, err := os.Stat(b.cfg.Sys.Template)
			zinotest.Must(t, err)
			zinotest.Write(t, b.cfg.Sys.Template, "5")
			zinotest.Must(t, os.Chtimes(b.cfg.Sys.Template, info.ModTime(), info.ModTime()))
		}, "5"},
	} {
		step.edit()
		zinotest.Eventually(t, step.what, func() bool { return b.get() == step.want })
	}
}

// TestSavingIsNotSeen checks that a file that is truncated and not yet written is not
// used. An attempt counts only if the file is younger than saveTime after it; else
// the machine was too slow, and it is repeated.
func TestSavingIsNotSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t")
	for end := time.Now().Add(zinotest.Timeout); ; {
		zinotest.Write(t, path, "old")
		tm := template{path: path, log: slog.New(slog.DiscardHandler)}
		tm.read()
		zinotest.Write(t, path, "")
		tm.refresh()
		info, err := os.Stat(path)
		zinotest.Must(t, err)
		if younger(info, saveTime) {
			if tm.text != "old" {
				t.Errorf("served %q while the file was being saved", tm.text)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("every attempt was too slow")
		}
	}
	tm := template{path: path, log: slog.New(slog.DiscardHandler), text: "old", young: true}
	zinotest.Must(t, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Minute)))
	if tm.refresh(); tm.text != "" {
		t.Errorf("a file that stays empty: got %q", tm.text)
	}
}

func TestProblemsInStats(t *testing.T) {
	b := newEnv(t, "")
	path := filepath.Join(b.cfg.Skills.Dir, "x.json")
	zinotest.Write(t, path, "{\n]")
	zinotest.Write(t, filepath.Join(b.cfg.Skills.Dir, "y.json"), `{}`)
	b.startMem()
	b.start()
	s := b.stats()
	if len(s.Problems) != 1 || !strings.HasPrefix(s.Problems[0], path+":2:1: ") {
		t.Errorf("problems: %q", s.Problems)
	}
	if s.Info["skills"] != "1" || s.Info["tools"] != "0" || s.Info["soft_memory"] != "as in mem" {
		t.Errorf("info: %v", s.Info)
	}
}
