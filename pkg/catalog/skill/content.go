package skill

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"zino/pkg/catalog/frontmatter"
	"zino/pkg/catalog/skill/folders"
	"zino/pkg/text"
	"zino/proto"
)

const (
	maxContent = 51200 // bytes of the instructions that a model gets
	maxNames   = 100   // of files

	argumentsMark = "$ARGUMENTS"
)

// Content returns the instructions of a usable skill in List. project are the skills of
// the project: the folder of one of them is hashed again.
func (l *Loader) Content(s proto.Skill, project []proto.ProjectSkill, arguments string) (proto.SkillContent, error) {
	c := proto.SkillContent{Name: s.Name, Dir: s.Dir, Files: []string{}}
	var content []byte
	var files []string
	if s.Source == proto.SkillOfProject {
		for _, p := range project {
			if p.Dir != s.Dir {
				continue
			}
			now, folder := l.ofProject(p)
			if now.Problem != "" {
				return c, proto.Errorf(proto.CodeDenied, "%s", now.Problem)
			}
			content, files = folder.Main, folder.Files
		}
	} else {
		root, err := os.OpenRoot(s.Dir)
		if err != nil {
			return c, fmt.Errorf("skill %s: %w", s.Dir, folders.WithoutPath(err))
		}
		defer root.Close()
		if content, _, err = readMain(root); err != nil {
			return c, fmt.Errorf("%s: %w", filepath.Join(s.Dir, File), err)
		}
		files = filesIn(root)
	}
	d, err := frontmatter.Parse(filepath.Join(s.Dir, File), content)
	if err != nil {
		return c, err
	}
	c.Content = excerpt(d, strings.Count(string(content), "\n"))
	switch {
	case arguments == "":
		c.Content = strings.ReplaceAll(c.Content, argumentsMark, "")
	case strings.Contains(c.Content, argumentsMark):
		c.Content = strings.ReplaceAll(c.Content, argumentsMark, arguments)
	default:
		c.Content = strings.TrimLeft(strings.TrimRight(c.Content, "\n")+"\n\nArguments: "+arguments+"\n", "\n")
	}
	if c.MoreFiles = len(files) - maxNames; c.MoreFiles > 0 {
		files = files[:maxNames]
	}
	c.MoreFiles = max(0, c.MoreFiles)
	c.Files = append(c.Files, files...)
	return c, nil
}

// excerpt returns the body of a document, of a long one the first lines. lines is the
// number of lines in the file.
func excerpt(d *frontmatter.Document, lines int) string {
	body := strings.TrimLeft(d.Body, "\n")
	if len(body) <= maxContent {
		return body
	}
	head := text.Head(body, maxContent)
	if end := strings.LastIndexByte(head, '\n'); end >= 0 {
		head = head[:end+1]
	}
	next := lines - strings.Count(body[len(head):], "\n") + 1
	return head + fmt.Sprintf("\n[%d of %d bytes. The file is %s: read shows its first 50 KiB, bash the rest with tail -n +%d]\n", len(head), len(body), d.File, next)
}

// filesIn returns the files of a folder without SKILL.md, in order: regular files, and
// links that do not lead out of it.
func filesIn(root *os.Root) (files []string) {
	left := maxEntries
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		switch {
		case err != nil:
			return nil // it cannot be read: the others can
		case d.IsDir() && path == ".git":
			return fs.SkipDir
		case d.IsDir() || path == File:
			return nil
		case d.Type() == fs.ModeSymlink:
			if info, err := root.Stat(path); err != nil || !info.Mode().IsRegular() {
				return nil
			}
		case !d.Type().IsRegular():
			return nil
		}
		files = append(files, path)
		return nil
	})
	return files
}
