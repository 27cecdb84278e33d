package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"zino/services/sys/textfile"
)

const (
	maxTemplate = 4 << 20

	// settling is how long a changed file is left alone: editors save in
	// several steps.
	settling = 100 * time.Millisecond
	// settled is the age from which a time stamp is trusted: a younger file may
	// be written again without a visible change of the stamp.
	settled = 2 * time.Second
)

// template is a template as last read.
type template struct {
	path     string
	key      string // of the configuration, for errors
	log      *slog.Logger
	text     string
	info     fs.FileInfo // of the file that was read; nil if there was none
	fresh    bool        // the file was too young to be sure of
	failed   error       // why the file could not be used the last time
	readable bool        // it was read once, or found missing: text is what it said then
}

// missing reports that the file does not exist.
func (t *template) missing() bool { return t.info == nil && t.failed == nil }

// describe names the template in use, for stats.
func (t *template) describe() string {
	switch {
	case t.path == "":
		return "none"
	case t.missing():
		return "none (" + t.path + " is missing)"
	}
	return t.path
}

// read reads the file now. If it cannot be used, failed says why and the old
// text stays.
func (t *template) read() {
	info, err := stat(t.path)
	t.info, t.fresh = info, info != nil && younger(info, settled)
	var text string
	if err == nil && info != nil {
		text, err = content(t.path)
	}
	if err != nil {
		t.fail(fmt.Errorf("template %s: %w", t.path, err))
		return
	}
	t.text, t.failed, t.readable = text, nil, true
}

// fail notes why the file cannot be used and logs it once.
func (t *template) fail(err error) {
	if t.failed == nil || t.failed.Error() != err.Error() {
		t.log.Warn("cannot read a template", "error", err, "old_one_in_use", t.readable)
	}
	t.failed = err
}

// refresh reads the file if it has changed and is not being written.
func (t *template) refresh() {
	info, err := stat(t.path)
	if err == nil && !t.fresh && same(info, t.info) {
		return
	}
	if err == nil && info == nil { // deleted, perhaps as a step of saving: the directory tells when
		info, err = stat(filepath.Dir(t.path))
	}
	if err == nil && info != nil && t.text != "" && younger(info, settling) {
		return
	}
	t.read()
}

// stat returns nil for a file that does not exist.
func stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, reason(err)
}

// younger reports whether a file was changed less than age ago. A time stamp
// in the future says nothing.
func younger(info fs.FileInfo, age time.Duration) bool {
	since := time.Since(info.ModTime())
	return 0 <= since && since < age
}

func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// content reads the template; one that was deleted since it was looked at is
// empty.
func content(path string) (string, error) {
	text, size, err := textfile.Head(path, maxTemplate)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err == nil && size > maxTemplate:
		return "", fmt.Errorf("is larger than %d bytes", maxTemplate)
	}
	return text, err
}

// reason drops the path that os puts into its errors.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
