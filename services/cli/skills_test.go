package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestSkills(t *testing.T) {
	t.Parallel()
	f := newFakeContext(t)
	f.expect(t, "skills list", 0, "No skills.\n", "")
	f.expect(t, "skills check", 0, "0 skills, 0 broken, 0 warnings\n", "")
	dir := filepath.Join(zinotest.Dir(t), "pdf")
	zinotest.Must(t, os.Mkdir(dir, 0o700))
	zinotest.Write(t, filepath.Join(dir, "SKILL.md"), "---\ndescription: Fills \"forms\".\n---\nBody \x1b[31m\n")
	f.with(func() {
		f.report.Skills = []proto.Skill{
			{Name: "pdf", Kind: proto.SkillFolder, Dir: dir, Source: proto.SkillOfProject, Description: "Fills \"forms\".", Warnings: []string{"/p:3: unknown"}},
			{Name: "release", Kind: proto.SkillFolder, Dir: "/r", Source: proto.SkillOfUser, Description: "Cuts\x1b[2J a release.", UserOnly: true},
			{Name: "release", Kind: proto.SkillFolder, Dir: "/s", Source: proto.SkillOfHost, Description: "Cuts.", Shadowed: true},
			{Name: "broken", Kind: proto.SkillFolder, Dir: "/b", Source: proto.SkillOfUser, Problem: "/b/SKILL.md:1: has no description"},
			{Name: "disk", Kind: proto.SkillJSON, Dir: "/d.json", Source: proto.SkillOfHost},
		}
	})
	f.expect(t, "skills list", 0, `NAME     KIND    SOURCE   STATE         DESCRIPTION
pdf      folder  project  ok            Fills "forms".
release  folder  user     command only  Cuts^[[2J a release.
release  folder  host     shadowed      Cuts.
broken   folder  user     broken        -
disk     json    host     ok            -
`, "")
	f.expect(t, "skills check", 1, "Warning: /p:3: unknown\n/b/SKILL.md:1: has no description\n5 skills, 1 broken, 1 warning\n", "")
	f.expect(t, "skills show pdf", 0, "pdf  (folder, project, ok)\n"+dir+"/SKILL.md\nWarning: /p:3: unknown\n\n---\ndescription: Fills \"forms\".\n---\nBody ^[[31m\n", "")
	f.expect(t, "skills show pfd", 1, "", "Error [usage]: no skill \"pfd\"; did you mean \"pdf\"?\n")
	if _, out, _ := run(t, f.command(t, "skills", "list", "--json"), ""); !strings.HasPrefix(out, `{"name":"pdf","description":"Fills \"forms\".","kind":"folder","dir":"`) || strings.Count(out, "\n") != 5 {
		t.Errorf("list --json: %s", out)
	}
}

// TestSkillsCheckDir checks folders that are not in use.
func TestSkillsCheckDir(t *testing.T) {
	t.Parallel()
	f := newFakeContext(t)
	dir := zinotest.Dir(t)
	f.expect(t, "skills check "+dir, 1, "", "Error [usage]: "+dir+" has no folder with a file SKILL.md\n")
	zinotest.WriteFiles(t, dir, map[string]string{
		"a/SKILL.md": "---\ndescription: Good.\n---\n",
		"b/SKILL.md": "---\nname: c\ndescription: Another name.\n---\n",
	})
	warning := "Warning: " + dir + `/b/SKILL.md:2: name "c" is not the name of the folder, "b"` + "\n"
	f.expect(t, "skills check "+dir, 0, warning+"2 skills, 0 broken, 1 warning\n", "")
	zinotest.Write(t, filepath.Join(dir, "a/SKILL.md"), "---\nname: a\n---\n")
	f.expect(t, "skills check "+dir+"/a", 1, dir+"/a/SKILL.md:1: has no description: say what the skill does and when to use it\n1 skill, 1 broken, 0 warnings\n", "")
}
