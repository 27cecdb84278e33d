// Package trust finds the files that a project brings for agents, and keeps a person's
// answers on which of them are used: a cloned repository must not start programs or put
// text into a prompt. A file is trusted by its path and hash together, so a changed one is
// asked about again, and the bytes that were hashed are the ones that are used.
package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"zino/pkg/catalog/frontmatter"
	"zino/pkg/catalog/skill/folders"
	"zino/pkg/realpath"
	"zino/pkg/text"
	"zino/proto"
)

const (
	fileMax     = 1 << 20 // bytes of .mcp.json and of a settings file
	commandMax  = 64 << 10
	commandsMax = 500
	skillsMax   = 200
	entriesMax  = 2000 // that are looked at below a folder of skills or commands
	skillDepth  = 2
	depthMax    = 8 // of commands
)

// Project is what the trusted files of a project say.
type Project struct {
	MCP      proto.Raw // {"mcpServers":{…}} of .mcp.json, in canonical form; nil: no trusted file
	MCPFile  string    // its path
	Settings []Settings
	Skills   []proto.ProjectSkill
	Commands []Command
}

// Settings is a file .claude/settings.json or .claude/settings.local.json with hooks.
type Settings struct {
	Path    string
	Content []byte // JSON, in canonical form
	Scripts proto.HookScripts
}

// Command is a file of .claude/commands.
type Command struct {
	Name    string // its path there without .md, folders joined by ':'
	Path    string
	Content []byte
}

// found is a file of a project with the content that was hashed.
type found struct {
	proto.TrustFile
	place   string
	command string // its name
	content []byte // that is used
	count   int    // of servers or hooks
	names   []string
	hooks   proto.HookScripts
	scripts []string // files of the project that it runs and that the hash does not cover
}

// Load returns what the files of a root say that the store trusts, and the state of all of
// them. Without a root it is nothing. An error of the store is returned with the files:
// none of them is trusted then.
func Load(root, home string, store *Store) (Project, []proto.TrustFile, error) {
	var p Project
	all, err := load(root, home, store)
	var files []proto.TrustFile
	for i := range all {
		f := &all[i]
		files = append(files, f.TrustFile)
		if f.State != proto.TrustTrusted {
			continue
		}
		switch f.Kind {
		case proto.TrustMCP:
			if p.MCP == nil {
				p.MCP, p.MCPFile = f.content, f.Path
			} else {
				p.MCP = mergeServers(p.MCP, f.content) // the root's win
			}
		case proto.TrustHooks:
			p.Settings = append(p.Settings, Settings{f.Path, f.content, f.hooks})
		case proto.TrustSkill:
			p.Skills = append(p.Skills, proto.ProjectSkill{Dir: f.Path, SHA256: f.SHA256})
		case proto.TrustCommand:
			if !slices.ContainsFunc(p.Commands, func(c Command) bool { return c.Name == f.command }) {
				p.Commands = append(p.Commands, Command{f.command, f.Path, f.content})
			}
		}
	}
	return p, files, err
}

// load returns the files of a root with their states.
func load(root, home string, store *Store) ([]found, error) {
	if root == "" {
		return nil, nil
	}
	all, err := scan(root, home, &store.sums)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	answers, err := store.read()
	for i := range all {
		f := &all[i]
		switch {
		case f.Problem != "":
			f.State = proto.TrustRefused
		default:
			f.State = state(answers, f.Path, f.SHA256)
		}
	}
	return all, err
}

// Set stores an answer about a file of a report. The content must still be the same, unless
// the answers about it are to be forgotten.
func Set(req proto.SetTrust, home string, store *Store) error {
	if !filepath.IsAbs(req.Path) || filepath.Clean(req.Path) != req.Path {
		return proto.Errorf(proto.CodeInvalid, "invalid path %.200q: use the absolute path of a file that zino trust lists", req.Path)
	}
	if req.Trusted == nil {
		return store.set(req.Path, "", nil)
	}
	all, err := scan(projectOf(req.Path), home, &store.sums)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(f found) bool { return f.Path == req.Path })
	switch {
	case i < 0:
		return proto.Errorf(proto.CodeNotFound, "%s is not a file that needs trust: zino trust lists those of a project", text.VisibleLine(req.Path))
	case all[i].Problem != "":
		return proto.Errorf(proto.CodeInvalid, "%s cannot be used: %s", text.VisibleLine(req.Path), all[i].Problem)
	case all[i].SHA256 != req.SHA256:
		return proto.Errorf(proto.CodeInvalid, "%s has changed since it was shown: look at it again", text.VisibleLine(req.Path))
	}
	return store.set(req.Path, req.SHA256, req.Trusted)
}

// projectOf returns the directory that a file of a report belongs to.
func projectOf(path string) string {
	for dir := path; dir != "/"; dir = filepath.Dir(dir) {
		if base := filepath.Base(dir); base == ".claude" || base == ".agents" {
			return filepath.Dir(dir)
		}
	}
	return filepath.Dir(path)
}

// places returns the directories with files of a project: the root and the nearest parent
// with a .git, if that lies below home. They have no symbolic links.
func places(root, home string) ([]string, error) {
	root, missing, err := realpath.Follow(root)
	if err != nil || missing > 0 {
		return nil, err
	}
	list := []string{root}
	if home, _, err = realpath.Follow(home); err != nil || home == "" || home == "/" {
		return list, nil
	}
	for dir := root; strings.HasPrefix(dir, home+"/"); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			if dir != root {
				list = append(list, dir)
			}
			break
		}
	}
	return list, nil
}

// scanner looks for the files in one place after the other.
type scanner struct {
	outer  *os.Root // the outermost place: links do not leave it
	top    string   // its path
	home   string   // without symbolic links
	root   string
	all    []found
	skills int
	cmds   int
	looked int
	sums   *folders.Sums
}

// scan finds the files of a project, with their hashes and contents.
func scan(root, home string, sums *folders.Sums) ([]found, error) {
	list, err := places(root, home)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	s := &scanner{top: list[len(list)-1], root: list[0], sums: sums}
	if s.home, _, err = realpath.Follow(home); err != nil {
		s.home = ""
	}
	if s.outer, err = os.OpenRoot(s.top); err != nil {
		return nil, err
	}
	defer s.outer.Close()
	for _, place := range list {
		s.place(place)
	}
	return s.all, nil
}

func (s *scanner) place(dir string) {
	s.file(dir, ".mcp.json", proto.TrustMCP)
	if dir == s.home {
		return // .claude and .agents are the user's own there
	}
	s.file(dir, ".claude/settings.json", proto.TrustHooks)
	s.file(dir, ".claude/settings.local.json", proto.TrustHooks)
	s.looked = 0
	s.skillsIn(dir, filepath.Join(dir, ".claude/skills"), 1)
	s.skillsIn(dir, filepath.Join(dir, ".agents/skills"), 1)
	s.commandsIn(dir, filepath.Join(dir, ".claude/commands"), "", 0)
}

// rel returns a path as s.outer takes it.
func (s *scanner) rel(path string) string {
	if rel, err := filepath.Rel(s.top, path); err == nil {
		return rel
	}
	return path
}

// name is how a path is shown to people.
func (s *scanner) name(path string) string { return nameIn(s.root, path) }

func nameIn(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil && strings.Count(rel, "../") < 4 {
		path = rel
	}
	return text.Clip(text.VisibleLine(path), 200)
}

// add adds a file. Without content err says why.
func (s *scanner) add(f found, err error) {
	if err != nil {
		f.SHA256, f.content = "", nil
		f.Problem = s.problem(err)
		if f.Summary == "" {
			f.Summary = "not usable: " + f.Problem
		}
	}
	f.Summary = text.Clip(text.VisibleLine(f.Summary), 300)
	f.Details = text.Head(text.Visible(f.Details), 16<<10)
	s.all = append(s.all, f)
}

// problem is an error for people.
func (s *scanner) problem(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) && pe.Err != nil && pe.Err.Error() == "path escapes from parent" {
		return "a symbolic link leaves " + text.VisibleLine(s.top)
	}
	return text.OneLine(text.VisibleLine(err.Error()))
}

// read returns the content of a file. missing is true if it does not exist.
func (s *scanner) read(path string, most int64) (content []byte, missing bool, err error) {
	f, err := open(s.outer, s.rel(path))
	if errors.Is(err, fs.ErrNotExist) {
		_, err := s.outer.Lstat(s.rel(path)) // a dangling link is as missing
		return nil, true, ignoreMissing(err)
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	content, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("it is larger than %s", text.Bytes(most))
	}
	return content, false, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// file adds .mcp.json or a settings file with hooks.
func (s *scanner) file(place, name, kind string) {
	path := filepath.Join(place, name)
	content, missing, err := s.read(path, fileMax)
	if missing && err == nil {
		return
	}
	f := found{TrustFile: proto.TrustFile{Path: path, Kind: kind}, place: place}
	if err != nil {
		s.add(f, err)
		return
	}
	sum := sha256.Sum256(content)
	f.SHA256 = hex.EncodeToString(sum[:])
	if kind == proto.TrustMCP {
		err = f.parseMCP(content)
	} else {
		err = f.parseHooks(content)
		if err == nil && f.count == 0 {
			return // other settings of another agent
		}
		if err == nil {
			err = s.addScripts(&f, sum)
		}
	}
	if err == nil {
		f.scripts = s.scripts(place, f.scripts)
	}
	s.add(f, err)
}

// addScripts adds the folder .claude/hooks to a settings file, and hashes them together.
func (s *scanner) addScripts(f *found, content [32]byte) error {
	all := sha256.New()
	fmt.Fprintf(all, "settings\x00%x\n", content)
	f.hooks.Dir = filepath.Join(f.place, ".claude/hooks")
	hooks, err := s.folder(f.hooks.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf(".claude/hooks: %w", err)
	default:
		f.hooks.SHA256 = hooks.SHA256
		fmt.Fprintf(all, "hooks\x00%s\n", hooks.SHA256)
	}
	f.SHA256 = hex.EncodeToString(all.Sum(nil))
	return nil
}

// folder hashes a folder of the project. The path is opened once, so that no link on the
// way to it leaves the project.
func (s *scanner) folder(path string) (folders.Folder, error) {
	dir, err := s.outer.OpenFile(s.rel(path), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return folders.Folder{}, err
	}
	defer dir.Close()
	return folders.Read(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), s.sums)
}

// entries returns the names in a directory, sorted; a missing one has none.
func (s *scanner) entries(path string) ([]string, error) {
	d, err := s.outer.Open(s.rel(path))
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(entriesMax - s.looked + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if s.looked += len(names); s.looked > entriesMax {
		return nil, fmt.Errorf("it has more than %d entries", entriesMax)
	}
	slices.Sort(names)
	return names, err
}

func (s *scanner) isDir(path string) bool {
	info, err := s.outer.Stat(s.rel(path))
	return err == nil && info.IsDir()
}

// skillsIn adds the folders with a SKILL.md below a folder of skills.
func (s *scanner) skillsIn(place, dir string, depth int) {
	names, err := s.entries(dir)
	if err != nil {
		s.add(found{TrustFile: proto.TrustFile{Path: dir, Kind: proto.TrustSkill}, place: place}, err)
		return
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		_, missing := s.outer.Lstat(s.rel(filepath.Join(path, "SKILL.md")))
		if missing != nil {
			if s.isDir(path) {
				if depth < skillDepth {
					s.skillsIn(place, path, depth+1)
				}
				continue
			}
			if _, err := s.outer.Stat(s.rel(path)); err == nil || errors.Is(err, fs.ErrNotExist) {
				continue
			} // a link that leaves is reported
		}
		if s.skills++; s.skills > skillsMax {
			s.add(found{TrustFile: proto.TrustFile{Path: dir, Kind: proto.TrustSkill}, place: place}, fmt.Errorf("there are more than %d skills", skillsMax))
			return
		}
		s.add(s.skill(place, path))
	}
}

func (s *scanner) skill(place, path string) (found, error) {
	f := found{TrustFile: proto.TrustFile{Path: path, Kind: proto.TrustSkill}, place: place}
	all, err := s.folder(path)
	f.Summary = "skill " + filepath.Base(path)
	if err == nil && all.Main == nil {
		err = errors.New("SKILL.md is not a file")
	}
	if err != nil {
		return f, err
	}
	f.SHA256 = all.SHA256
	f.describe("SKILL.md", all.Main)
	return f, nil
}

// describe adds what the front matter of a Markdown file says.
func (f *found) describe(name string, content []byte) {
	doc, err := frontmatter.Parse(name, content)
	if err != nil {
		f.Details = err.Error() + "\n"
		return
	}
	if description, _ := doc.Text("description"); description != "" {
		f.Summary += ": " + text.OneLine(description)
	}
	if doc.Found {
		head, _, _ := bytes.Cut(bytes.TrimPrefix(content, []byte("\ufeff"))[3:], []byte("\n---"))
		f.Details = strings.TrimSpace(string(head)) + "\n"
	}
}

// commandsIn adds the Markdown files below a folder of commands.
func (s *scanner) commandsIn(place, dir, prefix string, depth int) {
	names, err := s.entries(dir)
	if err != nil {
		s.add(found{TrustFile: proto.TrustFile{Path: dir, Kind: proto.TrustCommand}, place: place}, err)
		return
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if s.isDir(path) {
			if depth < depthMax {
				s.commandsIn(place, path, prefix+name+":", depth+1)
			}
			continue
		}
		base, ok := strings.CutSuffix(name, ".md")
		if _, err := s.outer.Stat(s.rel(path)); err == nil && !ok || base == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		} // a link that leaves is reported
		if s.cmds++; s.cmds > commandsMax {
			s.add(found{TrustFile: proto.TrustFile{Path: dir, Kind: proto.TrustCommand}, place: place}, fmt.Errorf("there are more than %d commands", commandsMax))
			return
		}
		s.add(s.commandFile(place, path, prefix+base))
	}
}

func (s *scanner) commandFile(place, path, name string) (found, error) {
	f := found{TrustFile: proto.TrustFile{Path: path, Kind: proto.TrustCommand, Summary: "command /" + name}, place: place, command: name}
	content, missing, err := s.read(path, commandMax)
	if missing && err == nil {
		err = errors.New("it does not exist")
	}
	if err != nil {
		return f, err
	}
	sum := sha256.Sum256(content)
	f.SHA256, f.content = hex.EncodeToString(sum[:]), content
	f.describe(filepath.Base(path), content)
	for line := range bytes.Lines(content) { // what it would run
		if bytes.Contains(line, []byte("!`")) {
			f.Details += string(line)
		}
	}
	return f, nil
}

// CommandName returns the name of the command in a file of .claude/commands.
func CommandName(path string) string {
	_, rel, _ := strings.Cut(path, "/.claude/commands/")
	return strings.ReplaceAll(strings.TrimSuffix(rel, ".md"), "/", ":")
}

// open opens a regular file below root for reading, without waiting for a FIFO. Symbolic
// links must not leave root.
func open(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// scripts returns those of some words of a command that are files of the project, and that
// the hash of settings does not cover.
func (s *scanner) scripts(place string, words []string) (list []string) {
	for _, word := range words {
		for _, root := range []string{"${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR", "${ZINO_ROOT}", "$ZINO_ROOT"} {
			if rest, ok := strings.CutPrefix(word, root); ok {
				word = place + rest
			}
		}
		if word == "" || len(word) > 4096 || strings.HasPrefix(word, "-") {
			continue
		}
		if !filepath.IsAbs(word) {
			word = filepath.Join(place, word)
		}
		word = filepath.Clean(word)
		if word != s.top && !strings.HasPrefix(word, s.top+"/") || strings.HasPrefix(word, filepath.Join(place, ".claude/hooks")+"/") {
			continue
		}
		if info, err := s.outer.Stat(s.rel(word)); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if name := s.name(word); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
