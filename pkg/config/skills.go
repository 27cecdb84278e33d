package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zino/proto"
)

// Skills configures the skills: JSON files in Dir, and folders with a SKILL.md.
type Skills struct {
	Dir          string   `toml:"dir"`
	Paths        []string `toml:"paths"`         // in place of the user's places
	Foreign      bool     `toml:"foreign"`       // the user's skills for other agents, too
	PromptTokens int      `toml:"prompt_tokens"` // limit of the list in a prompt
}

// SkillPlace is a directory whose subdirectories may be folders of skills.
type SkillPlace struct {
	Source string // proto.SkillOfUser or proto.SkillOfHost
	Dir    string
}

// Places returns the directories of the user's and the host's skills, nearest first.
// base is the user's base directory.
func (s Skills) Places(home, base string) (list []SkillPlace) {
	add := func(source string, dirs ...string) {
		for _, dir := range dirs {
			p := SkillPlace{source, dir}
			if dir != "" && !slices.ContainsFunc(list, func(o SkillPlace) bool { return o.Dir == dir }) {
				list = append(list, p)
			}
		}
	}
	under := func(dir string, names ...string) string {
		if dir == "" {
			return ""
		}
		return filepath.Join(append([]string{dir}, names...)...)
	}
	if len(s.Paths) > 0 {
		for _, path := range s.Paths {
			if rest, ok := strings.CutPrefix(path, "~/"); ok {
				path = under(home, rest)
			}
			add(proto.SkillOfUser, path)
		}
	} else {
		add(proto.SkillOfUser, under(base, "skills"))
		if s.Foreign {
			add(proto.SkillOfUser, under(home, ".claude", "skills"), under(home, ".agents", "skills"))
		}
	}
	add(proto.SkillOfHost, "/etc/zino/skills")
	for _, dir := range installation() {
		if dir = filepath.Join(dir, "skills"); isDir(dir) {
			add(proto.SkillOfHost, dir)
		}
	}
	return list
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
