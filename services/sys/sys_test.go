package sys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
)

func TestWholePrompt(t *testing.T) {
	b := newBench(t, "P=%%PERSONALITY%%\nT:\n%%TOOL_LIST%%\nS:\n%%SKILL_LINES%%\nN=%%MAX_ITERATIONS%% M=%%SOFT_MEMORIES%% %%X%%")
	b.cfg.Sys.Personality, b.cfg.Agent.MaxIterations = "dry %%SOFT_MEMORIES%%", 7
	write(t, filepath.Join(b.cfg.Tools.Dir, "python.json"), `{"meta":{"executor":"python3"}}`)
	write(t, filepath.Join(b.cfg.Skills.Dir, "disk.json"), `{"meta":{"static_analysis":"shellcheck"}}`)
	b.mem.put("likes <b>")
	b.startMem()
	b.start()
	b.want("P=dry %%SOFT_MEMORIES%%\nT:\n  - \"execute_python3\": python3 executor\nS:\n" +
		"  - \"disk\": bash executor, static analysis: shellcheck\nN=7 M=likes <b> %%X%%")
}

func TestEmptyTemplate(t *testing.T) {
	b := newBench(t, "")
	b.startMem()
	b.start()
	b.want("")
	must(t, os.Remove(b.cfg.Sys.Template))
	if got, err := b.reload(); got != "" || err != nil {
		t.Errorf("missing template: %q, %v", got, err)
	}
	write(t, b.cfg.Sys.Template, "now")
	if got, err := b.set("x"); got != "now" || err != nil {
		t.Errorf("set_soft_memory did not read the template: %q, %v", got, err)
	}
}

func TestReloadReadsEverything(t *testing.T) {
	b := newBench(t, "old")
	b.startMem()
	b.start()
	if _, err := b.set("soft"); err != nil {
		t.Fatal(err)
	}
	write(t, b.cfg.Sys.Template, "new %%SOFT_MEMORIES%%\n%%TOOL_LIST%%")
	write(t, filepath.Join(b.cfg.Tools.Dir, "lua.json"), `{}`)
	got, err := b.reload()
	if want := "new soft\n  - \"execute_lua\": lua executor"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	b.want(got)
}

// TestBadTemplate: what cannot be read leaves prompt and soft memory alone.
func TestBadTemplate(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"is a directory": func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o700)) },
		"is not UTF-8":   func(t *testing.T, path string) { write(t, path, "a\xff") },
		"is larger than": func(t *testing.T, path string) { must(t, os.Truncate(path, maxTemplate+1)) },
		"too many levels": func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Symlink("SYSTEM.md", path))
		},
		"is not a regular file": func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Symlink("/dev/null", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "old %%SOFT_MEMORIES%%")
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
			must(t, os.RemoveAll(b.cfg.Sys.Template))
			write(t, b.cfg.Sys.Template, "mended")
			await(t, "the mended template", func() bool { return b.get() == "mended" })
			if p := b.stats().Problems; len(p) != 0 {
				t.Errorf("problems after mending: %q", p)
			}
		})
	}
}

func TestNewRefusesBadTemplate(t *testing.T) {
	cfg := config.Default()
	cfg.Sys.Template = t.TempDir()
	_, err := New(cfg, nil, nil, quiet())
	if err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("got %v", err)
	}
}

// TestEditsAreNoticed: files on disk, no reload.
func TestEditsAreNoticed(t *testing.T) {
	b := newBench(t, "1 %%TOOL_LIST%%")
	b.startMem()
	b.start()
	b.want("1   (none loaded)")
	for _, step := range []struct {
		what string
		edit func()
		want string
	}{
		{"tool", func() { write(t, filepath.Join(b.cfg.Tools.Dir, "sh.json"), `{}`) }, "1   - \"execute_sh\": sh executor"},
		{"written in place", func() { write(t, b.cfg.Sys.Template, "2") }, "2"},
		{"renamed over", func() {
			write(t, b.cfg.Sys.Template+"~", "3")
			must(t, os.Rename(b.cfg.Sys.Template+"~", b.cfg.Sys.Template))
		}, "3"},
		{"deleted", func() { must(t, os.Remove(b.cfg.Sys.Template)) }, ""},
		{"back again", func() { write(t, b.cfg.Sys.Template, "4") }, "4"},
		{"same size, same time", func() {
			info, err := os.Stat(b.cfg.Sys.Template)
			must(t, err)
			write(t, b.cfg.Sys.Template, "5")
			must(t, os.Chtimes(b.cfg.Sys.Template, info.ModTime(), info.ModTime()))
		}, "5"},
	} {
		step.edit()
		await(t, step.what, func() bool { return b.get() == step.want })
	}
}

// TestSavingIsNotSeen: the moment between truncating and writing is not
// served. What the stamp still calls young after the look was so during it;
// a try that the machine paused in is made again.
func TestSavingIsNotSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t")
	for end := time.Now().Add(deadline); ; {
		write(t, path, "old")
		tm := template{path: path, log: quiet()}
		tm.read()
		write(t, path, "")
		tm.refresh()
		info, err := os.Stat(path)
		must(t, err)
		if younger(info, settling) {
			if tm.text != "old" {
				t.Errorf("served %q while the file was being saved", tm.text)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("the machine paused in every try")
		}
	}
	tm := template{path: path, log: quiet(), text: "old", fresh: true}
	must(t, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Minute)))
	if tm.refresh(); tm.text != "" {
		t.Errorf("a file that was emptied for good gives %q", tm.text)
	}
}

func TestProblemsInStats(t *testing.T) {
	b := newBench(t, "")
	path := filepath.Join(b.cfg.Skills.Dir, "x.json")
	write(t, path, "{\n]")
	write(t, filepath.Join(b.cfg.Skills.Dir, "y.json"), `{}`)
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
