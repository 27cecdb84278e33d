package sys

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/pkg/text"
	"zino/proto"
)

const (
	skillTitle = "# Skills\n\nInstructions for kinds of work. Where a description fits, first get them with the tool skill.\n"

	bytesPerToken    = 4
	shortDescription = 250   // bytes
	maxSkillList     = 51200 // bytes of the list for an empty name
)

// skillPlaces returns the directories of the user's and the host's skills.
func (s *Service) skillPlaces() []config.SkillPlace {
	base, err := keys.Base(os.Getenv)
	if err != nil {
		base = ""
	}
	return s.skillConfig.Places(os.Getenv("HOME"), base)
}

// listSkills returns all skills: the folders, nearest first, then the JSON files.
func (s *Service) listSkills(project []proto.ProjectSkill) []proto.Skill {
	return append(s.skills.List(project, s.skillPlaces()), jsonSkills(s.cat.Snapshot(), s.skillConfig.Dir)...)
}

func jsonSkills(snapshot *catalog.Snapshot, dir string) (list []proto.Skill) {
	source := proto.SkillOfHost
	if base, err := keys.Base(os.Getenv); err == nil && filepath.Dir(dir) == base {
		source = proto.SkillOfUser
	}
	for _, k := range snapshot.Skills {
		list = append(list, proto.Skill{
			Name: k.Name, Description: text.VisibleLine(text.OneLine(k.Description)), Kind: proto.SkillJSON, Dir: filepath.Join(dir, k.File), Source: source,
		})
	}
	return list
}

// addSkills appends the list of skills to a session's prompt.
func (s *Service) addSkills(reply *proto.SystemPrompt, req proto.GetPrompt) {
	reply.Skills = s.listSkills(req.ProjectSkills)
	section, _ := skillSection(reply.Skills, s.skillConfig.PromptTokens)
	if section == "" {
		return
	}
	reply.OfferSkill = true
	reply.Content = joined(reply.Content, section)
}

// joined returns a prompt followed by another part, which is not empty.
func joined(prompt, part string) string {
	if strings.TrimSpace(prompt) == "" {
		return part
	}
	return strings.TrimRight(prompt, "\r\n") + "\n\n" + part
}

// offeredSkills are those that a model may use.
func offeredSkills(list []proto.Skill) []proto.Skill {
	return slices.DeleteFunc(slices.Clone(list), func(s proto.Skill) bool { return !s.Usable() || s.UserOnly })
}

// skillSection returns the part of a prompt that lists the skills, of at most so many
// tokens, and the skills that it has no room for. It is empty if there are none. Over
// the limit descriptions are cut, then left out, then the last skills.
func skillSection(list []proto.Skill, tokens int) (section string, left []proto.Skill) {
	list = offeredSkills(list)
	if len(list) == 0 {
		return "", nil
	}
	limit := tokens * bytesPerToken
	for _, line := range []func(proto.Skill) string{skillLine, shortSkillLine} {
		if section := skillTitle + "\n" + skillLinesOf(list, line); len(section) <= limit {
			return section, nil
		}
	}
	name := func(s proto.Skill) string { return "- " + s.Name }
	for n := len(list); ; n-- {
		section = skillTitle + "\n" + skillLinesOf(list[:n], name)
		if n < len(list) {
			section += fmt.Sprintf("\n%d more: skill {\"name\":\"\"} lists them", len(list)-n)
		}
		if len(section) <= limit || n == 0 {
			return section, list[n:]
		}
	}
}

func skillLinesOf(list []proto.Skill, line func(proto.Skill) string) string {
	var lines []string
	for _, s := range list {
		lines = append(lines, line(s))
	}
	return strings.Join(lines, "\n")
}

func skillLine(s proto.Skill) string { return "- " + s.Name + ": " + s.Description }

func shortSkillLine(s proto.Skill) string {
	if len(s.Description) > shortDescription {
		s.Description = text.Head(s.Description, shortDescription-len("…")) + "…"
	}
	return skillLine(s)
}

// skill returns the instructions of a skill.
func (s *Service) skill(_ context.Context, req proto.GetSkill) (proto.SkillContent, error) {
	list := s.skills.List(req.ProjectSkills, s.skillPlaces())
	if req.Name == "" {
		_, left := skillSection(list, s.skillConfig.PromptTokens)
		if len(left) == 0 {
			left = offeredSkills(list)
		}
		content := skillLinesOf(left, shortSkillLine) + "\n"
		if len(left) == 0 {
			content = "There are no skills.\n"
		}
		return proto.SkillContent{Content: text.Head(content, maxSkillList), Files: []string{}}, nil
	}
	var problem string // of a skill with the name
	var names []string
	for _, k := range list {
		switch {
		case k.Usable() && k.Name == req.Name:
			if req.Command && k.ModelOnly {
				return proto.SkillContent{}, proto.Errorf(proto.CodeNotFound, "the skill %s is for the model only", k.Name)
			}
			if !req.Command && k.UserOnly {
				return proto.SkillContent{}, proto.Errorf(proto.CodeNotFound, "the skill %s is for people only: they type /%s", k.Name, k.Name)
			}
			return s.skills.Content(k, req.ProjectSkills, req.Arguments)
		case k.Name == req.Name && k.Problem != "":
			problem = cmp.Or(problem, k.Problem)
		case k.Usable() && !k.UserOnly:
			names = append(names, k.Name)
		}
	}
	switch {
	case problem != "":
		return proto.SkillContent{}, proto.Errorf(proto.CodeDenied, "%s", problem)
	case len(names) == 0:
		return proto.SkillContent{}, proto.Errorf(proto.CodeNotFound, "no skill %s; there are no skills", text.Quote(req.Name))
	}
	return proto.SkillContent{}, proto.Errorf(proto.CodeNotFound, "no skill %s; there are: %s", text.Quote(req.Name), strings.Join(names, ", "))
}
