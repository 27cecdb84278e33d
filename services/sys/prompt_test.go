package sys

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// ask requests a prompt.
func (b *env) ask(req proto.GetPrompt) (proto.SystemPrompt, error) {
	return rpc.Call(b.t.Context(), b.client, proto.SysGet, req)
}

// home sets temporary home and base directories, and returns a root in that home.
func (b *env) home() (root string) {
	b.t.Helper()
	b.t.Setenv("HOME", filepath.Join(b.dir, "home"))
	b.t.Setenv("ZINO_HOME", filepath.Join(b.dir, "base"))
	b.t.Setenv("ZDX_HOME", "")
	root = filepath.Join(b.dir, "home", "p")
	zinotest.Must(b.t, os.MkdirAll(root, 0o700))
	zinotest.Must(b.t, os.Mkdir(filepath.Join(b.dir, "base"), 0o700))
	return root
}

// TestBase checks the text before the AGENTS.md files.
func TestBase(t *testing.T) {
	const none = "\x00"
	for _, tt := range []struct {
		name, prompt, file, template string
		given                        *string
		want                         string
	}{
		{"the template", "", none, "T %%PERSONALITY%%", nil, "T dry"},
		{"system_prompt", "S %%PERSONALITY%%", none, "T", nil, "S %%PERSONALITY%%"},
		{"the file wins", "S", "\ufeffF\n", "T", nil, "F\n"},
		{"an empty file wins", "S", "", "T", nil, ""},
		{"the caller's prompt", "S", "F", "T", new("C"), "C"},
		{"the caller's empty prompt", "S", "F", "T %%PERSONALITY%%", new(""), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newEnv(t, tt.template)
			b.cfg.Sys.Personality, b.cfg.SystemPrompt = "dry", tt.prompt
			if tt.file != none {
				b.cfg.SystemPromptFile = filepath.Join(b.dir, "prompt")
				zinotest.Write(t, b.cfg.SystemPromptFile, tt.file)
			}
			b.startMem()
			b.start()
			reply, err := b.ask(proto.GetPrompt{SystemPrompt: tt.given})
			if err != nil || reply.Content != tt.want || reply.Files != nil || reply.Warnings != nil {
				t.Errorf("got %+v, %v, want %q", reply, err, tt.want)
			}
		})
	}
}

// TestPromptFileIsFresh checks that an edit takes effect in the next prompt.
func TestPromptFileIsFresh(t *testing.T) {
	b := newEnv(t, "T")
	b.cfg.SystemPromptFile = filepath.Join(b.dir, "prompt")
	zinotest.Write(t, b.cfg.SystemPromptFile, "one")
	b.startMem()
	b.start()
	b.want("one")
	zinotest.Write(t, b.cfg.SystemPromptFile, "two")
	b.want("two")
	if got, err := b.reload(); got != "two" || err != nil {
		t.Errorf("reload: %q, %v", got, err)
	}
	if got, err := b.set("soft"); got != "two" || err != nil || b.mem.stored() != "soft" {
		t.Errorf("set_soft_memory: %q, %v", got, err)
	}
}

// TestBadPromptFile checks that an unusable prompt file is an error that names the
// file and the remedy, and that the prompt stays unchanged.
func TestBadPromptFile(t *testing.T) {
	for want, spoil := range map[string]func(t *testing.T, path string){
		"no such file or directory: create it": func(t *testing.T, path string) {},
		"is a directory: repair it":            func(t *testing.T, path string) { zinotest.Must(t, os.Mkdir(path, 0o700)) },
		"is not a regular file: repair it":     func(t *testing.T, path string) { zinotest.Must(t, syscall.Mkfifo(path, 0o600)) },
		"is not UTF-8: repair it":              func(t *testing.T, path string) { zinotest.Write(t, path, "\xff") },
		"too many levels":                      func(t *testing.T, path string) { zinotest.Must(t, os.Symlink("prompt", path)) },
		"is larger than 4194304 bytes": func(t *testing.T, path string) {
			zinotest.Write(t, path, "")
			zinotest.Must(t, os.Truncate(path, maxTemplate+1))
		},
	} {
		t.Run(want, func(t *testing.T) {
			b := newEnv(t, "T")
			b.cfg.File = "/etc/z.toml"
			b.cfg.SystemPrompt, b.cfg.SystemPromptFile = "S", filepath.Join(b.dir, "prompt")
			spoil(t, b.cfg.SystemPromptFile)
			b.startMem()
			b.start()
			_, err := b.ask(proto.GetPrompt{})
			e, ok := errors.AsType[*proto.Error](err)
			if !ok || e.Code != proto.CodeInvalid || !strings.HasPrefix(e.Message, "system_prompt_file "+b.cfg.SystemPromptFile+": ") || !strings.Contains(e.Message, want) ||
				!strings.HasSuffix(e.Message, ", or change or remove the key system_prompt_file in your configuration") {
				t.Errorf("got %v", err)
			}
			if _, err := b.set("soft"); !errors.Is(err, proto.ErrInvalid) || b.mem.stored() != "" {
				t.Errorf("set_soft_memory: %v, mem has %q", err, b.mem.stored())
			}
			if p := b.stats().Problems; len(p) != 1 || p[0] != e.Message {
				t.Errorf("problems: %q", p)
			}
			if reply, err := b.ask(proto.GetPrompt{SystemPrompt: new("C")}); err != nil || reply.Content != "C" {
				t.Errorf("with the caller's: %+v, %v", reply, err)
			}
		})
	}
}

// TestProjectContext checks that the AGENTS.md files follow the prompt.
func TestProjectContext(t *testing.T) {
	for _, tt := range []struct{ name, template, before string }{
		{"a blank line between", "Be brief.", "Be brief.\n\n"},
		{"only one blank line", "Be brief.\n\n\n", "Be brief.\n\n"},
		{"no prompt", "", ""},
		{"a blank prompt", " \n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newEnv(t, tt.template)
			root := b.home()
			b.startMem()
			b.start()
			if reply, err := b.ask(proto.GetPrompt{Root: root}); err != nil || reply.Content != tt.template || len(reply.Files) != 0 {
				t.Errorf("without files: got %+v, %v", reply, err)
			}
			path := filepath.Join(root, "AGENTS.md")
			zinotest.Write(t, path, "Use tabs.\n")
			zinotest.Write(t, filepath.Join(b.dir, "base", "AGENTS.md"), "Speak up.")
			zinotest.Must(t, os.Mkdir(filepath.Join(b.dir, "home", "AGENTS.md"), 0o700))
			reply, err := b.ask(proto.GetPrompt{Root: root})
			zinotest.Must(t, err)
			project := "# Project Context\n\n## " + filepath.Join(b.dir, "base/AGENTS.md") + "\n\nSpeak up.\n\n## " + path + "\n\nUse tabs."
			if reply.Content != tt.before+project {
				t.Errorf("got %q", reply.Content)
			}
			if len(reply.Files) != 2 || reply.Files[1].Path != path || reply.Files[0].Bytes+reply.Files[1].Bytes != int64(len(project)) {
				t.Errorf("got %+v", reply.Files)
			}
			if len(reply.Warnings) != 1 || !strings.Contains(reply.Warnings[0], "is a directory") {
				t.Errorf("got %q", reply.Warnings)
			}
			b.want(tt.template) // the request has no root
		})
	}
}

func TestUnknownRoot(t *testing.T) {
	b := newEnv(t, "T")
	b.startMem()
	b.start()
	gone := filepath.Join(b.dir, "gone")
	if _, err := b.ask(proto.GetPrompt{Root: gone}); !errors.Is(err, proto.ErrInvalid) || !strings.Contains(err.Error(), gone) {
		t.Errorf("got %v", err)
	}
}

// TestNoBase checks that without a base directory of the user only the root's
// file is read.
func TestNoBase(t *testing.T) {
	b := newEnv(t, "T")
	root := b.home()
	for name, value := range map[string]string{"ZINO_HOME": "", "XDG_CONFIG_HOME": "", "HOME": "", "TMPDIR": filepath.Join(b.dir, "f")} {
		t.Setenv(name, value)
	}
	zinotest.Write(t, filepath.Join(b.dir, "f"), "no directory")
	zinotest.Write(t, filepath.Join(root, "AGENTS.md"), "x")
	b.startMem()
	b.start()
	reply, err := b.ask(proto.GetPrompt{Root: root})
	if err != nil || len(reply.Files) != 1 || len(reply.Warnings) != 1 || !strings.HasPrefix(reply.Warnings[0], "no AGENTS.md of your own is read: ") {
		t.Errorf("got %+v, %v", reply, err)
	}
}
