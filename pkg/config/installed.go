package config

import (
	"os"
	"path/filepath"
)

// installable are the keys of the files that are installed with the programs,
// and the names of those files.
func (c *Config) installable() map[string]*string {
	return map[string]*string{
		"tools.dir": &c.Tools.Dir, "skills.dir": &c.Skills.Dir,
		"sys.template": &c.Sys.Template, "sys.session_template": &c.Sys.SessionTemplate,
	}
}

// Locate finds the tools, the skills and the templates whose keys the file does
// not set: in dirs, in that order, then in the installation. What is found
// nowhere is left in the first of dirs.
func (c *Config) Locate(dirs ...string) {
	defaults := Default().installable()
	for key, path := range c.installable() {
		if !c.IsSet(key) {
			*path = locate(*defaults[key], dirs)
		}
	}
}

func locate(name string, dirs []string) string {
	for _, dir := range append(dirs[:len(dirs):len(dirs)], installation()...) {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return filepath.Join(dirs[0], name)
}

// installation lists the directories that hold the files of an installation:
// beside the programs, share/zino below their prefix, and the source tree whose
// bin/ they were built into. A parent directory is only taken for a source tree
// if it has a ZINO.toml, which that of ~/bin has not, and if others cannot write
// to it, as they can to that of /tmp/bin.
func installation() []string {
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	bin := filepath.Dir(exe)
	prefix := filepath.Dir(bin)
	list := []string{bin, filepath.Join(prefix, "share", "zino")}
	dir, err := os.Stat(prefix)
	if err != nil || dir.Mode().Perm()&0o002 != 0 {
		return list
	}
	if info, err := os.Stat(filepath.Join(prefix, FileName)); err == nil && info.Mode().IsRegular() {
		list = append(list, prefix)
	}
	return list
}
