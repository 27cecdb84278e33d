package skill

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/catalog/frontmatter"
	"zino/pkg/catalog/skill/folders"
	"zino/pkg/config"
	"zino/pkg/text"
	"zino/pkg/zinotest"
	"zino/proto"
)

var must, write = zinotest.Must, zinotest.Write

// put writes a skill below a place, and returns its folder.
func put(t *testing.T, place, name, content string) string {
	t.Helper()
	dir := filepath.Join(place, name)
	must(t, os.MkdirAll(dir, 0o700))
	write(t, filepath.Join(dir, File), content)
	return dir
}

func minimal(description string) string { return "---\ndescription: " + description + "\n---\nBody\n" }

func list(places ...string) []proto.Skill { return new(Loader).List(nil, placesOf(places)) }

func placesOf(dirs []string) (places []config.SkillPlace) {
	for _, dir := range dirs {
		places = append(places, config.SkillPlace{Source: proto.SkillOfUser, Dir: dir})
	}
	return places
}

// TestFrontMatter has a fixture for each field and form. AT is the path of SKILL.md.
func TestFrontMatter(t *testing.T) {
	for _, tt := range []struct {
		name, folder, content string
		want                  proto.Skill
	}{
		{"all fields", "pdf-forms", `---
name: pdf-forms
description: Fills PDF forms. Use it when a form is to be filled.
license: Apache-2.0
compatibility: Needs python3 and a network.
metadata:
  author: ada
  version: "1.0"
allowed-tools: Bash(git:*) Read
disable-model-invocation: false
user-invocable: true
argument-hint: [file] [field...]
---
Body
`, proto.Skill{Name: "pdf-forms", Description: "Fills PDF forms. Use it when a form is to be filled.", ArgumentHint: "[file] [field...]"}},
		{"tools as a list", "a", "---\ndescription: d\nallowed-tools: [Bash, Read]\n---\n", proto.Skill{Name: "a", Description: "d"}},
		{"tools on lines", "a", "---\ndescription: d\nallowed-tools:\n  - Bash\n  - Read\n---\n", proto.Skill{Name: "a", Description: "d"}},
		{"folded", "a", "---\ndescription: >-\n  one\n  two\n\n  three\n---\n", proto.Skill{Name: "a", Description: "one two three"}},
		{"literal", "a", "---\ndescription: |\n  one\n    two\n---\n", proto.Skill{Name: "a", Description: "one two"}},
		{"continued", "a", "---\ndescription: one\n  two\n---\n", proto.Skill{Name: "a", Description: "one two"}},
		{"quoted", "a", "---\nname: \"a\"\ndescription: 'Use when: asked'\n---\n", proto.Skill{Name: "a", Description: "Use when: asked"}},
		{"CRLF", "a", "---\r\nname: a\r\ndescription: d\r\n---\r\nBody\r\n", proto.Skill{Name: "a", Description: "d"}},
		{"BOM", "a", "\ufeff---\nname: a\ndescription: d\n---\n", proto.Skill{Name: "a", Description: "d"}},
		{"for people only", "a", "---\ndescription: d\ndisable-model-invocation: true\n---\n", proto.Skill{Name: "a", Description: "d", UserOnly: true}},
		{"for the model only", "a", "---\ndescription: d\nuser-invocable: false\n---\n", proto.Skill{Name: "a", Description: "d", ModelOnly: true}},
		{"name unlike the folder", "template-skill", "---\nname: template\ndescription: d\n---\n", proto.Skill{
			Name: "template", Description: "d", Warnings: []string{`AT:2: name "template" is not the name of the folder, "template-skill"`},
		}},
		{"bad name", "a", "---\nname: My Skill\ndescription: d\n---\n", proto.Skill{
			Name: "a", Description: "d",
			Warnings: []string{`AT:2: name "My Skill" has other characters than a-z, 0-9 and single hyphens, or is longer than 64: the folder's name is used`},
		}},
		{"long name", "a", "---\nname: " + strings.Repeat("a", 65) + "\ndescription: d\n---\n", proto.Skill{
			Name: "a", Description: "d",
			Warnings: []string{`AT:2: name "` + strings.Repeat("a", 65) + `" has other characters than a-z, 0-9 and single hyphens, or is longer than 64: the folder's name is used`},
		}},
		{"no good name at all", "my skill", "---\ndescription: d\n---\n", proto.Skill{
			Name: "my skill", Problem: "AT:1: no usable name: rename the folder, or add a name of a-z, 0-9 and hyphens",
		}},
		{"folder's name of other letters", "Größe_1.2", "---\ndescription: d\n---\n", proto.Skill{Name: "Größe_1.2", Description: "d"}},
		{"long description", "a", minimal(strings.Repeat("ä", 1068)), proto.Skill{
			Name: "a", Description: strings.Repeat("ä", 1024), Warnings: []string{"AT:2: the description has 1068 characters, 1024 are used"},
		}},
		{"unknown keys", "a", "---\ndescription: d\nmodel: x\nversion: 1\n---\n", proto.Skill{
			Name: "a", Description: "d", Warnings: []string{`AT:3: unknown in front matter: "model", "version"`},
		}},
		{"wrong types", "a", "---\nname: [a]\ndescription: d\nlicense: {a: b}\nmetadata: x\ndisable-model-invocation: maybe\n---\n", proto.Skill{
			Name: "a", Description: "d", UserOnly: true, Warnings: []string{
				"AT:2: name: must be text, not a list", `AT:6: disable-model-invocation: must be true or false, not "maybe"`,
				"AT:4: license: must be text, not a mapping", `AT:5: metadata: must be a mapping, not "x"`,
			},
		}},
		{"control characters", "a", "---\ndescription: \"a\\e[31m\\u202eb\\nc\"\n---\n", proto.Skill{Name: "a", Description: `a^[[31m\u202eb c`}},
		{"no description", "a", "---\nname: a\n---\nBody\n", proto.Skill{Name: "a", Problem: "AT:1: has no description: say what the skill does and when to use it"}},
		{"blank description", "a", "---\ndescription: \" \"\n---\nBody\n", proto.Skill{Name: "a", Problem: "AT:2: has no description: say what the skill does and when to use it"}},
		{"no front matter", "a", "# Title\n", proto.Skill{Name: "a", Problem: "AT:1: has no front matter: begin the file with lines of ---, description: …, ---"}},
		{"broken front matter", "a", "---\nname: a\ndescription: a: b\n---\n", proto.Skill{
			Name: "a", Problem: `AT:3: mapping values are not allowed in this context: put a value with ": " in quotes`,
		}},
		{"description of another type", "a", "---\ndescription: [a]\n---\n", proto.Skill{Name: "a", Problem: "AT:2: description: must be text, not a list"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			place := t.TempDir()
			dir := put(t, place, tt.folder, tt.content)
			got := list(place)
			if len(got) != 1 {
				t.Fatalf("got %v", got)
			}
			want := tt.want
			want.Kind, want.Dir, want.Source = proto.SkillFolder, dir, proto.SkillOfUser
			want.Problem = strings.ReplaceAll(want.Problem, "AT", filepath.Join(dir, File))
			for i, w := range want.Warnings {
				want.Warnings[i] = strings.ReplaceAll(w, "AT", filepath.Join(dir, File))
			}
			if !reflect.DeepEqual(got[0], want) {
				t.Errorf("got\n%+v\nwant\n%+v", got[0], want)
			}
		})
	}
}

func namesOf(list []proto.Skill) string {
	var all []string
	for _, s := range list {
		name := filepath.Base(s.Dir)
		switch {
		case s.Problem != "":
			name += "!"
		case s.Shadowed:
			name += "-"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func TestListPlaces(t *testing.T) {
	near, far := t.TempDir(), t.TempDir()
	put(t, near, "b", minimal("near"))
	put(t, near, "a/x", minimal("at depth 2"))
	put(t, near, "a/y/z", minimal("at depth 3"))
	put(t, near, "b/inner", minimal("below a skill"))
	put(t, near, ".hidden", minimal("hidden"))
	put(t, near, "broken", "")
	put(t, far, "b", minimal("far"))
	put(t, far, "broken", minimal("behind a broken one"))
	write(t, filepath.Join(near, File), minimal("of the place itself"))
	elsewhere := put(t, t.TempDir(), "linked", minimal("behind a link"))
	must(t, os.Symlink(elsewhere, filepath.Join(far, "c")))
	must(t, os.Symlink(elsewhere, filepath.Join(far, "d")))
	must(t, os.Symlink(far, filepath.Join(far, "loop")))
	got := list(near, far, near, "/nonexistent")
	if want := "x b broken! b- broken linked"; namesOf(got) != want {
		t.Errorf("got %q, want %q", namesOf(got), want)
	}
	if got[3].Description != "far" || got[5].Name != "c" {
		t.Errorf("got %+v", got)
	}
}

func TestListLimits(t *testing.T) {
	place := t.TempDir()
	for i := range maxSkills + 3 {
		put(t, place, fmt.Sprintf("s%03d", i), minimal("d"))
	}
	got := list(place)
	if len(got) != maxSkills || !strings.Contains(got[maxSkills-1].Problem, "there are more than 200 skills: this one and 3 more are left out") {
		t.Errorf("%d skills, the last is %+v", len(got), got[len(got)-1])
	}
	flood := t.TempDir()
	for i := range maxEntries + 50 {
		must(t, os.Mkdir(filepath.Join(flood, fmt.Sprint(i)), 0o700))
	}
	if got := list(flood); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestLinksOut(t *testing.T) {
	place := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, minimal("secret"))
	must(t, os.Mkdir(filepath.Join(place, "out"), 0o700))
	must(t, os.Symlink(secret, filepath.Join(place, "out", File)))
	dir := put(t, place, "files", minimal("d"))
	write(t, filepath.Join(dir, "z.txt"), "")
	must(t, os.Symlink(secret, filepath.Join(dir, "secret")))
	must(t, os.Symlink("z.txt", filepath.Join(dir, "inner")))
	must(t, os.Symlink("nothing", filepath.Join(dir, "dangling")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, os.Mkdir(filepath.Join(place, "fifo"), 0o700))
	must(t, syscall.Mkfifo(filepath.Join(place, "fifo", File), 0o600))
	var l Loader
	got := l.List(nil, placesOf([]string{place}))
	if want := "fifo! files out!"; namesOf(got) != want {
		t.Fatalf("got %q, want %q", namesOf(got), want)
	}
	if !strings.HasSuffix(got[0].Problem, "fifo/SKILL.md: is not a regular file") || !strings.HasSuffix(got[2].Problem, "out/SKILL.md: is a link that leads out of the folder") {
		t.Errorf("problems %q and %q", got[0].Problem, got[2].Problem)
	}
	c, err := l.Content(got[1], nil, "")
	must(t, err)
	if files := strings.Join(c.Files, " "); files != "inner z.txt" {
		t.Errorf("files %q", files)
	}
}

// TestListSeesChanges: a changed file is read again, also within the resolution of its
// time stamps. One that is being saved is not.
func TestListSeesChanges(t *testing.T) {
	place := t.TempDir()
	dir := put(t, place, "a", minimal("old"))
	path := filepath.Join(dir, File)
	var l Loader
	description := func() string { return l.List(nil, placesOf([]string{place}))[0].Description }
	old := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(path, old, old))
	for _, want := range []string{"old", "new", "one", "two"} {
		write(t, path, minimal(want))
		must(t, os.Chtimes(path, old, old))
		if got := description(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	write(t, path, "") // the first step of a save
	if got := description(); got != "two" {
		t.Errorf("while it is saved: %q", got)
	}
	must(t, os.RemoveAll(dir))
	if got := l.List(nil, placesOf([]string{place})); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// greeting makes a skill's folder with a script.
func greeting(t *testing.T) string {
	t.Helper()
	dir := put(t, t.TempDir(), "greet", "---\ndescription: Greets.\n---\nSay hello.\n")
	must(t, os.Mkdir(filepath.Join(dir, "scripts"), 0o700))
	write(t, filepath.Join(dir, "scripts/hello.sh"), "echo hello\n")
	return dir
}

func sha256Of(t *testing.T, dir string) string {
	t.Helper()
	f, err := folders.Read(dir, nil)
	must(t, err)
	return f.SHA256
}

func TestProjectSkills(t *testing.T) {
	user := t.TempDir()
	put(t, user, "greet", minimal("of the user"))
	dir := greeting(t)
	project := []proto.ProjectSkill{{Dir: dir, SHA256: sha256Of(t, dir)}}
	var l Loader
	got := l.List(project, placesOf([]string{user}))
	if namesOf(got) != "greet greet-" || got[0].Source != proto.SkillOfProject {
		t.Fatalf("got %+v", got)
	}
	c, err := l.Content(got[0], project, "")
	must(t, err)
	if c.Content != "Say hello.\n" || !reflect.DeepEqual(c.Files, []string{"scripts/hello.sh"}) {
		t.Errorf("content %+v", c)
	}
	// A changed script makes the skill unusable, and the user's is used.
	write(t, filepath.Join(dir, "scripts/hello.sh"), "echo evil\n")
	_, err = l.Content(got[0], project, "")
	zinotest.Error(t, err, proto.ErrDenied, "skill "+dir+": changed since it was trusted")
	if got := l.List(project, placesOf([]string{user})); namesOf(got) != "greet! greet" {
		t.Errorf("got %+v", got)
	}
}

// TestSwappedSkill changes SKILL.md while it is read: what is served is the content
// that was trusted, or nothing.
func TestSwappedSkill(t *testing.T) {
	dir := greeting(t)
	path := filepath.Join(dir, File)
	good, err := os.ReadFile(path)
	must(t, err)
	project := []proto.ProjectSkill{{Dir: dir, SHA256: sha256Of(t, dir)}}
	var l Loader
	trusted := l.List(project, nil)[0]
	other := filepath.Join(t.TempDir(), "evil")
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			content := good
			if n%2 == 0 {
				content = []byte("---\ndescription: Greets.\n---\nSay something evil.\n")
			}
			if os.WriteFile(other, content, 0o600) != nil || os.Rename(other, path) != nil {
				return
			}
		}
	}()
	for range 1000 {
		if c, err := l.Content(trusted, project, ""); err == nil && c.Content != "Say hello.\n" {
			t.Fatalf("served %q", c.Content)
		}
	}
	close(done)
	<-stopped
}

func TestContent(t *testing.T) {
	content := func(t *testing.T, body, arguments string) proto.SkillContent {
		t.Helper()
		place := t.TempDir()
		put(t, place, "a", "---\ndescription: d\n---\n"+body)
		var l Loader
		c, err := l.Content(l.List(nil, placesOf([]string{place}))[0], nil, arguments)
		must(t, err)
		return c
	}
	for _, tt := range []struct{ body, arguments, want string }{
		{"\n# Title\r\n\r\nText\r\n", "", "# Title\n\nText\n"},
		{"Fix $ARGUMENTS now.\n", "issue 12", "Fix issue 12 now.\n"},
		{"Fix $ARGUMENTS now.\n", "", "Fix  now.\n"},
		{"Fix.\n", "$ARGUMENTS 12", "Fix.\n\nArguments: $ARGUMENTS 12\n"},
		{"", "", ""},
	} {
		if c := content(t, tt.body, tt.arguments); c.Content != tt.want || c.Files == nil {
			t.Errorf("%q with %q: got %+v", tt.body, tt.arguments, c)
		}
	}
	line := strings.Repeat("x", 99) + "\n"
	c := content(t, strings.Repeat(line, 740), "")
	if !strings.HasPrefix(c.Content, strings.Repeat(line, 512)+"\n[51200 of 74000 bytes. The file is "+filepath.Join(c.Dir, File)) || !strings.HasSuffix(c.Content, "tail -n +516]\n") {
		t.Errorf("a long body ends %q", c.Content[51200:])
	}
}

// TestManyFiles: a skill with 10,000 files loads, and names the first ones.
func TestManyFiles(t *testing.T) {
	place := t.TempDir()
	dir := put(t, place, "a", minimal("d"))
	for i := range 10000 {
		write(t, filepath.Join(dir, fmt.Sprintf("f%05d", i)), "")
	}
	var l Loader
	c, err := l.Content(l.List(nil, placesOf([]string{place}))[0], nil, "")
	must(t, err)
	if len(c.Files) != 100 || c.Files[0] != "f00000" || c.MoreFiles < 9800 {
		t.Errorf("%d files, %d more", len(c.Files), c.MoreFiles)
	}
}

// FuzzSkill checks that any SKILL.md gives a problem, or a skill whose texts fit into
// lines of a prompt.
func FuzzSkill(f *testing.F) {
	f.Fuzz(func(t *testing.T, folder string, content []byte) {
		s := proto.Skill{Name: folder, Dir: "/s"}
		parse(&s, content)
		clean(&s)
		for _, line := range append([]string{s.Name, s.Description, s.ArgumentHint, s.Problem}, s.Warnings...) {
			if text.VisibleLine(line) != line {
				t.Errorf("%q cannot be shown", line)
			}
		}
		if s.Problem == "" && (!usableName(s.Name) || strings.TrimSpace(s.Description) == "" || len(s.Warnings) > 10) {
			t.Errorf("accepted %+v", s)
		}
		if d, err := frontmatter.Parse("/s/SKILL.md", content); err == nil {
			if body := excerpt(d, strings.Count(string(content), "\n")); len(body) > maxContent+300 {
				t.Errorf("%d bytes of instructions", len(body))
			}
		}
	})
}

// TestPublicSkills loads a checkout of a public repository of skills, which
// ZINO_SKILLS_REPO names: github.com/anthropics/skills. Not all of it may be copied, so
// without the variable this test is not part of a run.
func TestPublicSkills(t *testing.T) {
	repo := os.Getenv("ZINO_SKILLS_REPO")
	if repo == "" {
		t.Log("NOT TESTED: public skills. Set ZINO_SKILLS_REPO to a checkout")
		return
	}
	var l Loader
	got := l.List(nil, placesOf([]string{repo}))
	for _, s := range got {
		want := 0
		switch s.Name {
		case "claude-api", "template", "template-skill":
			want = 1
		}
		if s.Problem != "" || len(s.Warnings) != want {
			t.Errorf("%s: problem %q, warnings %q", s.Dir, s.Problem, s.Warnings)
		}
		if _, err := l.Content(s, nil, ""); err != nil {
			t.Error(err)
		}
	}
	if len(got) < 17 {
		t.Errorf("%d skills", len(got))
	}
}
