// Package skill reads the folders of Agent Skills: a SKILL.md with front matter, and
// the files that it names.
package skill

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"zino/pkg/catalog/frontmatter"
	"zino/pkg/catalog/skill/folders"
	"zino/pkg/config"
	"zino/pkg/text"
	"zino/proto"
)

const (
	// File is the name of the file that makes a folder a skill.
	File = folders.File

	maxSkills      = 200
	maxEntries     = 10000 // files of a folder that are looked at
	maxDescription = 1024  // characters
	maxCompatible  = 500   // likewise
	maxName        = 64

	// saveTime is how long a changed file is not read: editors save in several steps.
	saveTime = 100 * time.Millisecond
)

// keys are those of the specification, and the three that other agents added.
var keys = []string{
	"name", "description", "license", "compatibility", "metadata", "allowed-tools",
	disableModel, userInvocable, argumentHint,
}

const (
	disableModel  = "disable-model-invocation"
	userInvocable = "user-invocable"
	argumentHint  = "argument-hint"
)

// Loader finds skills. It keeps what it parsed while the files are unchanged. The zero
// value is ready for use.
type Loader struct {
	sums folders.Sums

	mu     sync.Mutex
	parsed map[string]parsed // by the path of SKILL.md
}

type parsed struct {
	stamp folders.Stamp
	young bool // the file may have changed within the resolution of its time stamps
	skill proto.Skill
}

// List returns the skills of a project and of places, nearest first, with those that
// cannot be used. Of usable skills with the same name the first one counts.
func (l *Loader) List(project []proto.ProjectSkill, places []config.SkillPlace) []proto.Skill {
	var list []proto.Skill
	var dirs []string // real paths, each once
	known := func(dir string) bool {
		if slices.Contains(dirs, dir) {
			return true
		}
		dirs = append(dirs, dir)
		return false
	}
	for _, p := range project {
		if !known(p.Dir) {
			s, _ := l.ofProject(p)
			list = append(list, s)
		}
	}
	for _, place := range places {
		for _, dir := range folders.In(place.Dir) {
			if real, err := filepath.EvalSymlinks(dir); err == nil && !known(real) {
				list = append(list, l.ofPlace(place.Source, real, filepath.Base(dir)))
			}
		}
	}
	if more := len(list) - maxSkills; more > 0 {
		list = list[:maxSkills]
		last := &list[maxSkills-1]
		*last = proto.Skill{Name: last.Name, Kind: last.Kind, Dir: last.Dir, Source: last.Source}
		last.Problem = fmt.Sprintf("%s: there are more than %d skills: this one and %d more are left out; remove some", last.Dir, maxSkills, more)
	}
	names := map[string]bool{}
	for i := range list {
		if s := &list[i]; s.Problem == "" {
			s.Shadowed, names[s.Name] = names[s.Name], true
		}
	}
	l.forget(dirs)
	return list
}

// forget drops what was parsed of folders that are gone.
func (l *Loader) forget(dirs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.parsed) <= 2*maxSkills {
		return
	}
	for path := range l.parsed {
		if !slices.Contains(dirs, filepath.Dir(path)) {
			delete(l.parsed, path)
		}
	}
}

// ofProject reads a skill of a project, whose folder must be the one that was trusted.
func (l *Loader) ofProject(p proto.ProjectSkill) (proto.Skill, folders.Folder) {
	s := proto.Skill{Name: filepath.Base(p.Dir), Kind: proto.SkillFolder, Dir: p.Dir, Source: proto.SkillOfProject}
	folder, err := folders.Read(p.Dir, &l.sums)
	switch {
	case err != nil:
		s.Problem = "skill " + p.Dir + ": " + err.Error()
	case folder.SHA256 != p.SHA256:
		s.Problem = "skill " + p.Dir + ": " + folders.Changed
	default:
		parse(&s, folder.Main)
	}
	clean(&s)
	return s, folder
}

// ofPlace reads a skill of the user or the host; name is that of its folder.
func (l *Loader) ofPlace(source, dir, name string) proto.Skill {
	s := proto.Skill{Name: name, Kind: proto.SkillFolder, Dir: dir, Source: source}
	path := filepath.Join(dir, File)
	root, err := os.OpenRoot(dir)
	if err != nil {
		s.Problem = path + ": " + folders.WithoutPath(err).Error()
		return s
	}
	defer root.Close()
	info, err := root.Stat(File)
	l.mu.Lock()
	old, ok := l.parsed[path]
	l.mu.Unlock()
	if err == nil && ok {
		age := time.Since(info.ModTime())
		if old.stamp == folders.StampOf(info) && !old.young || old.skill.Problem == "" && 0 <= age && age < saveTime {
			return old.skill
		}
	}
	content, info, err := readMain(root)
	if err != nil {
		s.Problem = path + ": " + err.Error()
	} else {
		parse(&s, content)
	}
	clean(&s)
	if err == nil {
		stamp := folders.StampOf(info)
		l.mu.Lock()
		if l.parsed == nil {
			l.parsed = map[string]parsed{}
		}
		l.parsed[path] = parsed{stamp, stamp.Young(), s}
		l.mu.Unlock()
	}
	return s
}

// readMain reads the SKILL.md of a folder. A link that leads out of it is an error.
func readMain(root *os.Root) (content []byte, info fs.FileInfo, err error) {
	f, err := root.OpenFile(File, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if _, kernel := errors.AsType[syscall.Errno](err); !kernel {
			return nil, nil, errors.New("is a link that leads out of the folder")
		}
		return nil, nil, folders.WithoutPath(err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, folders.WithoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("is not a regular file")
	}
	content, err = io.ReadAll(io.LimitReader(f, folders.MaxMain+1))
	if err == nil && len(content) > folders.MaxMain {
		err = fmt.Errorf("is larger than %d bytes", folders.MaxMain)
	}
	return content, info, err
}

// parse fills in s from a SKILL.md. s.Name is the folder's name.
func parse(s *proto.Skill, content []byte) {
	path := filepath.Join(s.Dir, File)
	d, err := frontmatter.Parse(path, content)
	if err != nil {
		s.Problem = err.Error()
		return
	}
	fail := func(line int, reason string) {
		s.Problem = (&frontmatter.Error{File: path, Line: line, Reason: reason}).Error()
	}
	warn := func(line int, format string, args ...any) {
		s.Warnings = append(s.Warnings, (&frontmatter.Error{File: path, Line: line, Reason: fmt.Sprintf(format, args...)}).Error())
	}
	if !d.Found {
		fail(1, "has no front matter: begin the file with lines of ---, description: …, ---")
		return
	}
	folder := s.Name
	name, err := d.Text("name")
	switch name = strings.TrimSpace(name); {
	case err != nil:
		s.Warnings = append(s.Warnings, err.Error())
	case name == "":
	case !goodName(name):
		warn(d.Line("name"), "name %q has other characters than a-z, 0-9 and single hyphens, or is longer than %d: the folder's name is used", text.VisibleLine(name), maxName)
	default:
		s.Name = name
		if name != folder {
			warn(d.Line("name"), "name %q is not the name of the folder, %q", name, text.VisibleLine(folder))
		}
	}
	if !usableName(s.Name) {
		fail(max(1, d.Line("name")), "no usable name: rename the folder, or add a name of a-z, 0-9 and hyphens")
		return
	}
	description, err := d.Text("description")
	if err != nil {
		s.Problem = err.Error()
		return
	}
	if description = strings.Join(strings.Fields(description), " "); description == "" {
		fail(max(1, d.Line("description")), "has no description: say what the skill does and when to use it")
		return
	}
	if n := utf8.RuneCountInString(description); n > maxDescription {
		warn(d.Line("description"), "the description has %d characters, %d are used", n, maxDescription)
		description = string([]rune(description)[:maxDescription])
	}
	s.Description = description
	s.UserOnly = bools(s, d, disableModel, false, true)
	s.ModelOnly = !bools(s, d, userInvocable, true, true)
	if s.ArgumentHint, err = d.Text(argumentHint); err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	_, license := d.Text("license")
	compatible, compatibility := d.Text("compatibility")
	if n := utf8.RuneCountInString(compatible); n > maxCompatible {
		warn(d.Line("compatibility"), "compatibility has %d characters, more than %d", n, maxCompatible)
	}
	_, metadata := d.Map("metadata")
	_, tools := d.List("allowed-tools") // grants nothing: the host says what is allowed
	for _, err := range []error{license, compatibility, metadata, tools} {
		if err != nil {
			s.Warnings = append(s.Warnings, err.Error())
		}
	}
	var unknown []string
	line := 0
	for _, key := range d.Keys() {
		if !slices.Contains(keys, key) {
			unknown, line = append(unknown, fmt.Sprintf("%q", key)), cmp.Or(line, d.Line(key))
		}
	}
	if len(unknown) > 0 {
		warn(line, "unknown in front matter: %s", strings.Join(unknown, ", "))
	}
}

// bools returns the value of a key that is true or false. One that is neither is a
// warning, and counts as wrong.
func bools(s *proto.Skill, d *frontmatter.Document, key string, absent, wrong bool) bool {
	value, err := d.Bool(key, absent)
	if err != nil {
		s.Warnings = append(s.Warnings, err.Error())
		return wrong
	}
	return value
}

// clean makes all texts fit to be shown on a line.
func clean(s *proto.Skill) {
	for _, t := range []*string{&s.Name, &s.Description, &s.ArgumentHint, &s.Problem} {
		*t = text.VisibleLine(*t)
	}
	for i, w := range s.Warnings {
		s.Warnings[i] = text.VisibleLine(w)
	}
}

// goodName reports whether a name has the form of the specification.
func goodName(name string) bool {
	for part := range strings.SplitSeq(name, "-") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return false
		}
	}
	return len(name) <= maxName
}

// usableName reports whether a folder's name can be typed as a command.
func usableName(name string) bool {
	return len(name) <= maxName && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	})
}

// Check returns the skill in a folder, or those below a directory.
func (l *Loader) Check(dir string) []proto.Skill {
	if _, err := os.Lstat(filepath.Join(dir, File)); err == nil {
		return []proto.Skill{l.ofPlace(proto.SkillOfUser, dir, filepath.Base(dir))}
	}
	return l.List(nil, []config.SkillPlace{{Source: proto.SkillOfUser, Dir: dir}})
}
