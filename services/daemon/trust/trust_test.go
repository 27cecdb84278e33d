package trust

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// project is a directory below a home with files of each kind.
type project struct {
	t          *testing.T
	home, root string
	store      *Store
}

// covered are the files of newProject, whose content a person is asked about.
var covered = map[string]string{
	".mcp.json":                   `{"mcpServers":{"pg":{"command":"pg-mcp","args":["--read-only"]},"web":{"url":"https://example.org/mcp"}}}`,
	".claude/settings.json":       `{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"python3 .claude/hooks/guard.py"}]}]}}`,
	".claude/settings.local.json": `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"sh $CLAUDE_PROJECT_DIR/tools/check.sh"}]}]}}`,
	".claude/hooks/guard.py":      "import sys\n",
	".claude/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Reads PDF files.\n---\nUse it.\n",
	".claude/skills/pdf/a.py":     "print(1)\n",
	".agents/skills/x/y/SKILL.md": "---\nname: y\ndescription: Y.\n---\n",
	".claude/commands/fix.md":     "---\ndescription: Fixes an issue\n---\nFix $1.\n!`git status`\n",
	".claude/commands/git/pr.md":  "Open a PR.\n",
}

func newProject(t *testing.T) *project {
	t.Helper()
	home, err := filepath.EvalSymlinks(zinotest.Dir(t))
	zinotest.Must(t, err)
	p := &project{t: t, home: home, root: filepath.Join(home, "src", "p"), store: NewStore(filepath.Join(home, ".config", "zino"))}
	for name, content := range covered {
		p.write(name, content)
	}
	p.write("tools/check.sh", "true\n")
	return p
}

func (p *project) path(name string) string { return filepath.Join(p.root, name) }

func (p *project) write(name, content string) {
	p.t.Helper()
	zinotest.Must(p.t, os.MkdirAll(filepath.Dir(p.path(name)), 0o700))
	zinotest.Write(p.t, p.path(name), content)
}

func (p *project) load() (Project, []proto.TrustFile) {
	p.t.Helper()
	project, files, err := Load(p.root, p.home, p.store)
	zinotest.Must(p.t, err)
	return project, files
}

func (p *project) report() proto.TrustReport {
	p.t.Helper()
	r, err := Report(p.root, p.home, p.store)
	zinotest.Must(p.t, err)
	return r
}

// answer answers the question about all files.
func (p *project) answer(trusted bool) {
	p.t.Helper()
	for _, f := range p.report().Files {
		if f.Problem == "" {
			zinotest.Must(p.t, Set(proto.SetTrust{Path: f.Path, SHA256: f.SHA256, Trusted: &trusted}, p.home, p.store))
		}
	}
}

func (p *project) states() map[string]string {
	p.t.Helper()
	_, files := p.load()
	states := map[string]string{}
	for _, f := range files {
		rel, err := filepath.Rel(p.root, f.Path)
		zinotest.Must(p.t, err)
		states[rel] = f.State
	}
	return states
}

func TestNothingIsUsedBeforeTheAnswer(t *testing.T) {
	p := newProject(t)
	if project, files := p.load(); !isEmpty(project) || len(files) != 7 {
		t.Errorf("got %+v of %d files", project, len(files))
	}
	want := "This project brings: 2 MCP servers (.mcp.json: pg, web), 1 hook (.claude/settings.json), 1 hook (.claude/settings.local.json), 2 skills, 2 commands." +
		" They run files that are not covered by your answer: tools/check.sh. Use them?"
	if got := p.report(); got.Question != want || !strings.HasPrefix(got.Unused, "Not used, not trusted: .mcp.json, .claude/settings.json, ") {
		t.Errorf("asked %q, unused %q", got.Question, got.Unused)
	}
	p.answer(false)
	if got := p.report(); got.Question != "" || got.Unused != "" {
		t.Errorf("asked again: %q, %q", got.Question, got.Unused)
	}
	err := Set(proto.SetTrust{Path: p.path(".mcp.json"), SHA256: strings.Repeat("0a", 32), Trusted: new(true)}, p.home, p.store)
	if !errors.Is(err, proto.ErrInvalid) {
		t.Errorf("an answer about another content: %v", err)
	}
	if err := Set(proto.SetTrust{Path: p.path("tools/check.sh"), Trusted: new(true)}, p.home, p.store); !errors.Is(err, proto.ErrNotFound) {
		t.Errorf("an answer about another file: %v", err)
	}
	if project, _ := p.load(); !isEmpty(project) {
		t.Errorf("refused files are used: %+v", project)
	}
	p.answer(true)
	project, _ := p.load()
	if got := string(project.MCP); got != `{"mcpServers":{"pg":{"args":["--read-only"],"command":"pg-mcp"},"web":{"url":"https://example.org/mcp"}}}` {
		t.Errorf("MCP: %s", got)
	}
	if len(project.Settings) != 2 || len(project.Skills) != 2 || len(project.Commands) != 2 {
		t.Errorf("got %+v", project)
	}
	if c := project.Commands[1]; c.Name != "git:pr" || string(c.Content) != "Open a PR.\n" {
		t.Errorf("command %+v", c)
	}
	zinotest.Must(t, Set(proto.SetTrust{Path: p.path(".mcp.json")}, p.home, p.store))
	if got := p.states()[".mcp.json"]; got != proto.TrustNew {
		t.Errorf("a file that was forgotten is %s", got)
	}
}

func isEmpty(p Project) bool {
	return p.MCP == nil && p.MCPFile == "" && len(p.Settings)+len(p.Skills)+len(p.Commands) == 0
}

// TestEachByteIsCovered changes each byte of each file: the question comes again, and the
// files of the answer are used again when the byte is back.
func TestEachByteIsCovered(t *testing.T) {
	p := newProject(t)
	p.answer(true)
	for name, content := range covered {
		for i := range len(content) {
			changed := []byte(content)
			changed[i] ^= 0x01
			zinotest.Write(t, p.path(name), string(changed))
			all, files := p.load()
			used := len(all.Settings) + len(all.Skills) + len(all.Commands)
			if all.MCP != nil {
				used++
			}
			if used > 6 {
				t.Fatalf("%s: byte %d is not covered", name, i)
			}
			broken := slices.ContainsFunc(files, func(f proto.TrustFile) bool { return f.Problem != "" })
			if report := p.report(); !broken && len(files) == 7 && !strings.Contains(report.Question, "changed") {
				t.Fatalf("%s: byte %d: asked %q", name, i, report.Question)
			}
		}
		zinotest.Write(t, p.path(name), content)
	}
	zinotest.Must(t, os.Chmod(p.path(".claude/hooks/guard.py"), 0o755))
	states := p.states()
	if states[".claude/settings.json"] != proto.TrustChanged || states[".claude/settings.local.json"] != proto.TrustChanged {
		t.Errorf("a mode of a hook is not covered: %v", states)
	}
	p.write(".claude/skills/pdf/more.py", "")
	if states := p.states(); states[".claude/skills/pdf"] != proto.TrustChanged {
		t.Errorf("a new file of a skill is not covered: %v", states)
	}
}

// TestSwapped swaps files between the question, the answer and the use: what is used is
// always the content that the answer was about.
func TestSwapped(t *testing.T) {
	files := map[string]string{ // GOOD is what is trusted
		".mcp.json":                   `{"mcpServers":{"pg":{"command":"GOOD"}}}`,
		".claude/settings.json":       `{"hooks":{"Stop":[{"hooks":[{"command":"GOOD","type":"command"}]}]}}`,
		".claude/commands/fix.md":     "---\ndescription: d\n---\nGOOD !`GOOD`\n",
		".claude/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: GOOD\n---\n",
	}
	for name, content := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			p := newProject(t)
			used := func() string { // the content that is used of the file
				all, _ := p.load()
				switch {
				case name == ".mcp.json":
					return string(all.MCP)
				case filepath.Base(name) == "settings.json":
					for _, s := range all.Settings {
						if s.Path == p.path(name) {
							return string(s.Content)
						}
					}
				case filepath.Base(name) == "fix.md":
					for _, c := range all.Commands {
						if c.Path == p.path(name) {
							return string(c.Content)
						}
					}
				default:
					for _, s := range all.Skills {
						if s.Dir == filepath.Dir(p.path(name)) {
							return s.SHA256
						}
					}
				}
				return ""
			}
			p.write(name, content)
			p.answer(true)
			want := used()
			if want == "" {
				t.Fatal("the trusted file is not used")
			}
			stop, swapped := make(chan struct{}), make(chan int)
			go func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						swapped <- n
						return
					default:
					}
					now := content
					if n%2 == 0 {
						now = strings.ReplaceAll(content, "GOOD", "evil")
					}
					tmp := p.path("new")
					if os.WriteFile(tmp, []byte(now), 0o600) == nil {
						_ = os.Rename(tmp, p.path(name))
					}
				}
			}()
			times := 0
			for range 1000 {
				if got := used(); got == want {
					times++
				} else if got != "" {
					t.Fatalf("used: %s", got)
				}
				for _, f := range p.report().Files { // an answer about what may be gone
					if strings.HasPrefix(p.path(name), f.Path) && strings.Contains(f.Details, "GOOD") {
						_ = Set(proto.SetTrust{Path: f.Path, SHA256: f.SHA256, Trusted: new(true)}, p.home, p.store)
					}
				}
			}
			close(stop)
			t.Logf("%d swaps, used %d times", <-swapped, times)
		})
	}
}

func TestLinksThatLeaveAreRefused(t *testing.T) {
	p := newProject(t)
	outside := filepath.Join(p.home, "outside")
	for name, content := range covered {
		zinotest.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(outside, name)), 0o700))
		zinotest.Write(t, filepath.Join(outside, name), content)
	}
	for _, name := range []string{".mcp.json", ".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".claude/skills", ".claude/skills/pdf", ".claude/skills/pdf/a.py", ".claude/skills/pdf/SKILL.md", ".claude/commands", ".claude/commands/fix.md", ".claude/commands/git", ".claude"} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			p.answer(true)
			before := len(p.states())
			zinotest.Must(t, os.RemoveAll(p.path(name)))
			target, err := filepath.Rel(filepath.Dir(p.path(name)), filepath.Join(outside, name))
			zinotest.Must(t, err)
			zinotest.Must(t, os.Symlink(target, p.path(name)))
			_, files := p.load()
			refused := 0
			for _, f := range files {
				if strings.HasPrefix(f.Path, p.path(name)) && f.State == proto.TrustTrusted {
					t.Errorf("used through a link: %+v", f)
				}
				if f.Problem != "" {
					refused++
				}
			}
			if refused == 0 {
				t.Errorf("no file of %d is refused of %d", len(files), before)
			}
		})
	}
}

func TestPlaces(t *testing.T) {
	p := newProject(t)
	zinotest.Must(t, os.MkdirAll(p.path("a/b"), 0o700))
	at := func(root string) []string {
		list, err := places(root, p.home)
		zinotest.Must(t, err)
		return list
	}
	if got := at(p.path("a/b")); !slices.Equal(got, []string{p.path("a/b")}) {
		t.Errorf("without .git: %q", got)
	}
	zinotest.Must(t, os.Mkdir(p.path(".git"), 0o700))
	zinotest.Must(t, os.Mkdir(filepath.Join(p.home, ".git"), 0o700))
	if got := at(p.path("a/b")); !slices.Equal(got, []string{p.path("a/b"), p.root}) {
		t.Errorf("below .git: %q", got)
	}
	if got := at(p.root); !slices.Equal(got, []string{p.root}) {
		t.Errorf("with .git: %q", got)
	}
	if got := at(filepath.Join(p.home, "src")); len(got) != 1 {
		t.Errorf("the home is not a project: %q", got)
	}
	other := zinotest.Dir(t)
	zinotest.Must(t, os.MkdirAll(filepath.Join(other, "r", "s"), 0o700))
	zinotest.Must(t, os.Mkdir(filepath.Join(other, "r", ".git"), 0o700))
	if got := at(filepath.Join(other, "r", "s")); len(got) != 1 {
		t.Errorf("outside of the home: %q", got)
	}
	p.write("a/b/.mcp.json", `{"mcpServers":{"pg":{"command":"nearer"}}}`)
	root := *p
	root.root = p.path("a/b")
	root.answer(true)
	all, _ := root.load()
	if got := string(all.MCP); got != `{"mcpServers":{"pg":{"command":"nearer"},"web":{"url":"https://example.org/mcp"}}}` || all.MCPFile != p.path("a/b/.mcp.json") {
		t.Errorf("%s of %s", got, all.MCPFile)
	}
}

func TestLimits(t *testing.T) {
	p := newProject(t)
	p.answer(true)
	p.write(".mcp.json", strings.Repeat(" ", fileMax)+"{}")
	p.write(".claude/commands/fix.md", strings.Repeat("x", commandMax+1))
	for i := range 2001 {
		p.write(fmt.Sprintf(".claude/skills/pdf/%d", i), "")
	}
	_, files := p.load()
	for _, f := range files {
		if base := filepath.Base(f.Path); (base == ".mcp.json" || base == "fix.md" || base == "pdf") && (f.Problem == "" || f.SHA256 != "") {
			t.Errorf("%+v", f)
		}
	}
	zinotest.Must(t, os.Remove(p.path(".mcp.json")))
	zinotest.Must(t, syscall.Mkfifo(p.path(".mcp.json"), 0o600))
	if _, files := p.load(); files[0].Problem != "it is not a regular file" {
		t.Errorf("a FIFO: %+v", files[0])
	}
}

func TestStoreRefuses(t *testing.T) {
	p := newProject(t)
	p.answer(true)
	file := filepath.Join(p.store.dir, FileName)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	good := zinotest.Read(t, file)
	for _, text := range []string{"{}", `{"version":2}`, "[]", "", good + "x", strings.Replace(good, `"path"`, `"path2"`, 1), strings.Replace(good, `"sha256": "`, `"sha256": "0`, 1), strings.Replace(good, `"path": "/`, `"path": "`, 1)} {
		zinotest.Write(t, file, text)
		if all, files, err := Load(p.root, p.home, p.store); err == nil || !isEmpty(all) || len(files) != 7 {
			t.Errorf("%.40q: used %d skills, %v", text, len(all.Skills), err)
		}
	}
	zinotest.Write(t, file, good)
	zinotest.Must(t, os.Chmod(file, 0o622))
	if _, _, err := Load(p.root, p.home, p.store); err == nil {
		t.Error("a file that others can write to is read")
	}
}
