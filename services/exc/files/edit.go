package files

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// attempts is how often a change begins anew because somebody else changed the
// file while it was being made.
const attempts = 5

// Edited is what edit brings.
type Edited struct {
	Path         string `json:"path"`         // absolute, without symbolic links
	Replacements int64  `json:"replacements"` // how many
}

// editInput is the input of edit.
type editInput struct {
	Path     string `json:"path"`
	Old      string `json:"old"`
	New      string `json:"new"`
	Expected *int64 `json:"expected_replacements,omitzero"`
}

// Edit carries out a call of edit, {path, old, new, expected_replacements = 1}:
// it replaces a text that stands in the file that many times. The rest of the
// file stays as it is, to the byte. ctx limits it as it does Write.
func (f *Files) Edit(ctx context.Context, root string, input []byte) (Reply, error) {
	var in editInput
	if err := Decode(input, &in); err != nil {
		return Reply{}, err
	}
	path, err := locate(root, in.Path)
	if err == nil {
		err = in.check()
	}
	if err != nil {
		return Reply{}, err
	}
	return persist(path, func() (Reply, error) { return f.edit(ctx, root, path, in) })
}

// persist makes attempts until one is not disturbed by somebody else.
func persist(path string, attempt func() (Reply, error)) (Reply, error) {
	for range attempts {
		reply, err := attempt()
		if !errors.Is(err, errReplaced) {
			return reply, err
		}
	}
	return Reply{}, fail(WriteError, "%s keeps being changed by others: read it again and repeat the change", path)
}

// check is the error for input that makes no sense, and sets the default.
func (in *editInput) check() error {
	if in.Expected == nil {
		in.Expected = new(int64(1))
	}
	switch {
	case in.Old == "":
		return fail(InvalidInput, "old is empty: give the text to replace.")
	case *in.Expected < 1:
		return fail(InvalidInput, "expected_replacements is %d: it must be 1 or more.", *in.Expected)
	}
	return nil
}

// edit is one attempt. errReplaced asks for another one.
func (f *Files) edit(ctx context.Context, root, path string, in editInput) (Reply, error) {
	t, release, err := f.claim(ctx, func() (target, error) { return f.existing(path) })
	if err != nil {
		return Reply{}, err
	}
	defer release()
	before, was, err := t.readAll(EditMax)
	if err != nil {
		return Reply{}, uneditable(err, t.path)
	}
	after, err := in.apply(before, t.path)
	if err != nil {
		return Reply{}, err
	}
	t.read = was
	if err = t.writable(); err == nil {
		err = t.put([]byte(after))
	}
	if err != nil {
		return Reply{}, unwritable(err, t.path)
	}
	return Reply{Edited{t.path, *in.Expected}, compareEdit(t.label(root), before, in)}, nil
}

// existing finds a file that must be there.
func (f *Files) existing(path string) (target, error) {
	t, err := f.find(path, false)
	if err == nil && t.info != nil {
		return t, nil
	}
	if err == nil {
		t.close()
		return t, fail(PathError, "File not found: %s", path)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return t, e
	}
	return t, fail(PathError, "%s", describe(err, path))
}

// uneditable is the error of a file that cannot be read as a text.
func uneditable(err error, path string) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, errTooLarge) {
		return fail(ReadError, "%s is larger than the %d MiB that edit takes: change it with bash", path, EditMax>>20)
	}
	return fail(ReadError, "%s", describe(err, path))
}

// apply is the text of the file at path with its replacements.
func (in editInput) apply(text, path string) (string, error) {
	if i := badByte(text); i >= 0 {
		return "", fail(ReadError, "%s is not text: byte 0x%02x at offset %d is not UTF-8. Change it with bash", path, text[i], i)
	}
	n := int64(strings.Count(text, in.Old))
	switch {
	case n == 0:
		return "", fail(OldNotFound, "old was not found in %s (0 occurrences). %s", path, advice(text, in.Old))
	case n != *in.Expected:
		return "", fail(CountMismatch, "old was found %d times in %s, expected %d: %s. Give more of the text around it, or set expected_replacements to %d",
			n, path, *in.Expected, places(text, in.Old), n)
	case int64(len(text))+n*int64(len(in.New)-len(in.Old)) > EditMax:
		return "", fail(WriteError, "%s would become larger than the %d MiB that edit takes: change it with bash", path, EditMax>>20)
	}
	return strings.ReplaceAll(text, in.Old, in.New), nil
}

// places says in which lines of text the first occurrences of old begin.
func places(text, old string) string {
	const most = 10
	var list []string
	line := 1
	for len(list) <= most {
		before, after, found := strings.Cut(text, old)
		if !found {
			break
		}
		line += strings.Count(before, "\n")
		list = append(list, fmt.Sprint(line))
		line += strings.Count(old, "\n")
		text = after
	}
	if len(list) > most {
		list[most] = "…"
	}
	if len(list) == 1 {
		return "in line " + list[0]
	}
	return "in lines " + strings.Join(list, ", ")
}
