package sys

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/catalog/skill"
	"zino/pkg/catalog/skill/folders"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// skillsEnv is a sys with a place for skills.
func skillsEnv(t *testing.T) (b *env, place string) {
	t.Helper()
	b = newEnv(t, "")
	zinotest.Write(t, b.cfg.Sys.SessionTemplate, "You are Zino.\n")
	place = filepath.Join(b.dir, "folders")
	b.cfg.Skills.Paths = []string{place}
	b.startMem()
	b.start()
	return b, place
}

func putSkill(t *testing.T, place, name, content string) string {
	t.Helper()
	dir := filepath.Join(place, name)
	zinotest.Must(t, os.MkdirAll(dir, 0o700))
	zinotest.Write(t, filepath.Join(dir, skill.File), content)
	return dir
}

func about(description string) string {
	return "---\ndescription: " + description + "\n---\nBody of " + description + "\n"
}

func (b *env) getSession(root string, project ...proto.ProjectSkill) proto.SystemPrompt {
	b.t.Helper()
	reply, err := rpc.Call(b.t.Context(), b.client, proto.SysGet, proto.GetPrompt{Session: true, Root: root, ProjectSkills: project})
	zinotest.Must(b.t, err)
	return reply
}

func (b *env) skill(req proto.GetSkill) (proto.SkillContent, error) {
	return rpc.Call(b.t.Context(), b.client, proto.SysSkill, req)
}

func TestSkillsInPrompt(t *testing.T) {
	b, place := skillsEnv(t)
	if reply := b.getSession(""); reply.Content != "You are Zino." || reply.OfferSkill || len(reply.Skills) != 0 {
		t.Errorf("without skills: %+v", reply)
	}
	putSkill(t, place, "pdf", about("Fills forms."))
	putSkill(t, place, "secret", "---\ndescription: d\ndisable-model-invocation: true\n---\n")
	broken := putSkill(t, place, "broken", "")
	root := filepath.Join(b.dir, "project")
	zinotest.Must(t, os.Mkdir(root, 0o700))
	zinotest.Write(t, filepath.Join(root, "AGENTS.md"), "Be brief.")
	zinotest.Write(t, filepath.Join(b.cfg.Skills.Dir, "disk.json"), `{"description":"Disks."}`)
	zinotest.Must(t, func() error { _, err := b.reload(); return err }())
	reply := b.getSession(root)
	want := "You are Zino.\n\n" + skillTitle + "\n- pdf: Fills forms.\n\n# Project Context\n"
	if !strings.HasPrefix(reply.Content, want) || !reply.OfferSkill {
		t.Errorf("got %q, want %q", reply.Content, want)
	}
	var got []string
	for _, s := range reply.Skills {
		got = append(got, s.Name+" "+s.Kind+" "+s.Source)
	}
	if all := strings.Join(got, ", "); all != "broken folder user, pdf folder user, secret folder user, disk json host" {
		t.Errorf("skills: %s", all)
	}
	if plain := b.get(); strings.Contains(plain, "pdf") {
		t.Errorf("a plain message has skills: %q", plain)
	}
	s := b.stats()
	if len(s.Problems) != 1 || !strings.HasPrefix(s.Problems[0], broken+"/SKILL.md:1: has no front matter") || s.Info["skills"] != "2" {
		t.Errorf("problems %q, info %v", s.Problems, s.Info)
	}
}

func TestSkillsOfProject(t *testing.T) {
	b, place := skillsEnv(t)
	putSkill(t, place, "pdf", about("Of the user."))
	dir := putSkill(t, filepath.Join(b.dir, "p/.claude/skills"), "pdf", about("Of the project."))
	folder, err := folders.Read(dir, nil)
	zinotest.Must(t, err)
	trusted := proto.ProjectSkill{Dir: dir, SHA256: folder.SHA256}
	if reply := b.getSession("", trusted); !strings.Contains(reply.Content, "- pdf: Of the project.") || strings.Contains(reply.Content, "Of the user.") {
		t.Errorf("prompt %q", reply.Content)
	}
	c, err := b.skill(proto.GetSkill{Name: "pdf", ProjectSkills: []proto.ProjectSkill{trusted}})
	if err != nil || c.Content != "Body of Of the project.\n" || c.Dir != dir {
		t.Errorf("%+v, %v", c, err)
	}
	zinotest.Write(t, filepath.Join(dir, "new.py"), "")
	if reply := b.getSession("", trusted); !strings.Contains(reply.Content, "- pdf: Of the user.") {
		t.Errorf("prompt %q", reply.Content)
	}
	zinotest.Must(t, os.RemoveAll(filepath.Join(place, "pdf")))
	_, err = b.skill(proto.GetSkill{Name: "pdf", ProjectSkills: []proto.ProjectSkill{trusted}})
	zinotest.Error(t, err, proto.ErrDenied, "skill "+dir+": changed since it was trusted")
}

func TestSkillSectionCaps(t *testing.T) {
	const tokens = 500
	for _, tt := range []struct {
		skills, length int
		want           func(section string, left int) bool
	}{
		{3, 1000, func(s string, left int) bool { // cut
			return left == 0 && strings.Count(s, "\n- ") == 3 && strings.Count(s, "…") == 3 && strings.Contains(s, strings.Repeat("x", 247)+"…\n") && !strings.Contains(s, strings.Repeat("x", 248))
		}},
		{1, 1000, func(s string, left int) bool { return left == 0 && strings.HasSuffix(s, strings.Repeat("x", 1000)) }},
		{50, 1000, func(s string, left int) bool { return left == 0 && strings.HasSuffix(s, "\n- skill-048\n- skill-049") }}, // names
		{500, 1000, func(s string, left int) bool { // some
			return left > 300 && strings.HasSuffix(s, fmt.Sprintf("\n- skill-%03d\n%d more: skill {\"name\":\"\"} lists them", 499-left, left))
		}},
		{0, 0, func(s string, left int) bool { return s == "" && left == 0 }},
	} {
		var list []proto.Skill
		for i := range tt.skills {
			list = append(list, proto.Skill{Name: fmt.Sprintf("skill-%03d", i), Kind: proto.SkillFolder, Description: strings.Repeat("x", tt.length)})
		}
		section, left := skillSection(list, tokens)
		if len(section) > tokens*bytesPerToken || !tt.want(section, len(left)) {
			t.Errorf("%d skills: %d left, section %q", tt.skills, len(left), section)
		}
	}
}

func TestSkill(t *testing.T) {
	b, place := skillsEnv(t)
	_, err := b.skill(proto.GetSkill{Name: "pdf"})
	zinotest.Error(t, err, proto.ErrNotFound, `no skill "pdf"; there are no skills`)
	if c, err := b.skill(proto.GetSkill{}); err != nil || c.Content != "There are no skills.\n" {
		t.Errorf("%+v, %v", c, err)
	}
	dir := putSkill(t, place, "pdf", about("Fills $ARGUMENTS."))
	zinotest.Write(t, filepath.Join(dir, "forms.md"), "")
	putSkill(t, place, "people", "---\ndescription: d\ndisable-model-invocation: true\n---\nFor people.\n")
	putSkill(t, place, "model", "---\ndescription: d\nuser-invocable: false\n---\nFor the model.\n")
	broken := putSkill(t, place, "broken", "---\nname: broken\n---\n")
	c, err := b.skill(proto.GetSkill{Name: "pdf", Arguments: "a form"})
	if err != nil || c.Name != "pdf" || c.Dir != dir || c.Content != "Body of Fills a form.\n" || strings.Join(c.Files, " ") != "forms.md" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, tt := range []struct {
		name    string
		command bool
		want    string // content or error
	}{
		{"people", true, "For people.\n"},
		{"people", false, "the skill people is for people only: they type /people"},
		{"model", false, "For the model.\n"},
		{"model", true, "the skill model is for the model only"},
		{"broken", false, broken + "/SKILL.md:1: has no description"},
		{"word", false, `no skill "word"; there are: model, pdf`},
		{"../pdf", false, `no skill "../pdf"; there are: model, pdf`},
	} {
		c, err := b.skill(proto.GetSkill{Name: tt.name, Command: tt.command})
		if err == nil && c.Content == tt.want {
			continue
		}
		zinotest.Error(t, err, nil, tt.want)
	}
	if c, err := b.skill(proto.GetSkill{}); err != nil || c.Content != "- model: d\n- pdf: Fills $ARGUMENTS.\n" {
		t.Errorf("%+v, %v", c, err)
	}
}

func BenchmarkGetWithoutSkills(b *testing.B) {
	s := Service{}
	for b.Loop() {
		s.skills.List(nil, s.skillPlaces())
	}
}
