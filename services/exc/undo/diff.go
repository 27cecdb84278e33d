package undo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"zino/proto"
	"zino/services/exc/files"
)

const (
	diffMax     = 8 << 20 // bytes of a diff
	diffFileMax = 1 << 20 // bytes of a file that is compared
)

// Diff returns what a turn changed, as a unified diff.
func (s *Store) Diff(ctx context.Context, req proto.Undo) (proto.TurnDiff, error) {
	if err := s.problem(); err != nil {
		return proto.TurnDiff{}, err
	}
	s.objects.exclude.RLock()
	defer s.objects.exclude.RUnlock()
	sel, err := s.find(req, false)
	if err != nil {
		return proto.TurnDiff{}, err
	}
	reply := proto.TurnDiff{Turn: sel.turn, Files: []proto.DiffFile{}}
	u := &undo{s: s, ctx: ctx, roots: map[string]*root{}}
	defer u.close()
	var text strings.Builder
	for _, c := range sel.changes {
		if c.Kind == kindDir && (c.Before == nil || c.After == nil || c.Before.Kind == c.After.Kind && c.Before.Mode == c.After.Mode) {
			continue // git does not show directories either
		}
		part, file, err := u.diff(c)
		if err != nil {
			return proto.TurnDiff{}, err
		}
		if reply.Files = append(reply.Files, file); text.Len()+len(part) > diffMax {
			part = fmt.Sprintf("# %s: left out, the diff is longer than %s\n", quoted(c.Path), bytesText(diffMax))
		}
		if text.Len() <= diffMax {
			text.WriteString(part)
		}
	}
	reply.Diff = text.String()
	return reply, nil
}

// diff is the diff of one change.
func (u *undo) diff(c Change) (string, proto.DiffFile, error) {
	file := proto.DiffFile{Path: c.name(), Late: c.Late, NotCovered: c.Why != ""}
	if c.Why != "" {
		return fmt.Sprintf("# %s: not covered: %s\n", c.Path, c.Why), file, nil
	}
	if c.Before != nil && c.After != nil && c.Before.Kind != c.After.Kind { // as git: removed, and made anew
		removed, made := c, c
		removed.After, made.Before = nil, nil
		removed.Kind = c.Before.Kind
		first, a, err := u.diff(removed)
		if err != nil {
			return "", file, err
		}
		second, b, err := u.diff(made)
		file.Added, file.Removed, file.Binary, file.NotCovered = a.Added+b.Added, a.Removed+b.Removed, a.Binary || b.Binary, a.NotCovered || b.NotCovered
		return first + second, file, err
	}
	path := strings.TrimPrefix(c.Path, "/")
	from, to := quoted("a/"+path), quoted("b/"+path)
	var b strings.Builder
	fmt.Fprintf(&b, "diff --git %s %s\n", from, to)
	switch {
	case c.Before == nil:
		from = "/dev/null"
		fmt.Fprintf(&b, "new file mode %s\n", c.After.gitMode())
	case c.After == nil:
		to = "/dev/null"
		fmt.Fprintf(&b, "deleted file mode %s\n", c.Before.gitMode())
	case c.Before.gitMode() != c.After.gitMode():
		fmt.Fprintf(&b, "old mode %s\nnew mode %s\n", c.Before.gitMode(), c.After.gitMode())
	}
	before, err := u.text(c, c.Before)
	if err != nil {
		return "", file, err
	}
	after, err := u.text(c, c.After)
	if err != nil {
		return "", file, err
	}
	switch {
	case before.unknown || after.unknown:
		file.NotCovered = true
		fmt.Fprintf(&b, "# %s: not covered: the content was not kept\n", quoted(c.Path))
	case before.binary || after.binary:
		if file.Binary = before.sum != after.sum; file.Binary {
			fmt.Fprintf(&b, "Binary files %s and %s differ\n", from, to)
		}
	default:
		diff, added, removed := files.Unified(from, to, before.text, after.text)
		file.Added, file.Removed = added, removed
		b.WriteString(diff)
	}
	return b.String(), file, nil
}

// gitMode is the mode as git writes it.
func (s *State) gitMode() string {
	switch {
	case s.Kind == kindSymlink:
		return "120000"
	case s.Kind == kindDir:
		return "040000"
	case s.Mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// content is what a diff compares.
type content struct {
	text            string
	sum             string
	binary, unknown bool
}

// text returns the content of a state: of its image, or of the file if it still has
// that content.
func (u *undo) text(c Change, state *State) (content, error) {
	switch {
	case state == nil || state.Kind == kindDir:
		return content{}, nil
	case state.Kind == kindSymlink:
		return content{text: state.Text, sum: state.Text}, nil
	case state.SHA256 == "":
		return content{unknown: true}, nil
	}
	data, err := u.image(c, state)
	if errors.Is(err, os.ErrNotExist) {
		return content{unknown: true, sum: state.SHA256}, nil
	}
	if err != nil {
		return content{}, err
	}
	return content{text: string(data), sum: state.SHA256, binary: len(data) > diffFileMax || !files.IsText(string(data))}, nil
}

// image reads a content, up to one byte more than is compared. An error ErrNotExist
// means that it was not kept.
func (u *undo) image(c Change, state *State) (data []byte, err error) {
	if data, err := u.s.objects.read(state.SHA256, diffFileMax+1); data != nil || err != nil {
		return data, err
	}
	if state.Blob != "" {
		err := blobs(u.ctx, state.Git, []string{state.Blob}, func(_ int, content io.Reader) error {
			if content != nil {
				data, err = io.ReadAll(io.LimitReader(content, diffFileMax+1))
			}
			return err
		})
		if data != nil && err == nil {
			return data, nil
		}
		return nil, errors.Join(os.ErrNotExist, u.ctx.Err())
	}
	now, err := u.look(c.Root, c.Path, true)
	if err != nil {
		return nil, errors.Join(os.ErrNotExist, u.ctx.Err())
	}
	defer now.close()
	if now.State == nil || now.file == nil || now.SHA256 != state.SHA256 {
		return nil, os.ErrNotExist
	}
	return io.ReadAll(io.NewSectionReader(now.file, 0, diffFileMax+1))
}

// quoted is a path in a diff: with control characters, quotes and backslashes as in
// C, as git writes it.
func quoted(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' || r == '\\' }) {
		return path
	}
	var b bytes.Buffer
	b.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
