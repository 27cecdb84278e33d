package sys

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/catalog"
	"zino/proto"
	"zino/services/sys/textfile"
)

const (
	maxTemplate = 4 << 20

	// saveTime is how long a changed file is not read: editors save in several
	// steps.
	saveTime = 100 * time.Millisecond
	// stampTime is the age from which a modification time is trusted: a younger file
	// may be written again within the resolution of timestamps.
	stampTime = 2 * time.Second
)

// template is a template file as last read.
type template struct {
	path     string
	key      string // in the configuration, for errors
	log      *slog.Logger
	text     string
	info     fs.FileInfo // of the file that was read; nil if it did not exist
	young    bool        // the file was younger than stampTime
	failed   error       // of the last attempt to read the file
	readable bool        // an attempt succeeded, or found the file missing
}

// missing reports whether the file does not exist.
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

// read reads the file. If that fails, it logs the error once and keeps the old text.
func (t *template) read() {
	info, err := stat(t.path)
	t.info, t.young = info, info != nil && younger(info, stampTime)
	var content string
	if err == nil && info != nil {
		var size int64
		content, size, err = textfile.Head(t.path, maxTemplate)
		if err == nil && size > maxTemplate {
			err = fmt.Errorf("is larger than %d bytes", maxTemplate)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a file deleted since stat counts as empty
		err = fmt.Errorf("template %s: %w", t.path, err)
		if t.failed == nil || t.failed.Error() != err.Error() {
			t.log.Warn("cannot read a template", "error", err, "old_one_in_use", t.readable)
		}
		t.failed = err
		return
	}
	t.text, t.failed, t.readable = content, nil, true
}

// refresh reads the file if it has changed, unless it may be half written.
func (t *template) refresh() {
	info, err := stat(t.path)
	if err == nil && !t.young && same(info, t.info) {
		return
	}
	if err == nil && info == nil { // deleted, perhaps while saving: use the directory's time
		info, err = stat(filepath.Dir(t.path))
	}
	if err == nil && info != nil && t.text != "" && younger(info, saveTime) {
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

// younger reports whether a file was changed less than age ago. A time in the
// future counts as old.
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

// reason drops the path that os puts into its errors.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// render replaces every %%NAME%% whose name is in values, in a single pass: values
// are not expanded again.
func render(template string, values map[string]string) string {
	pairs := make([]string, 0, 2*len(values))
	for name, value := range values {
		pairs = append(pairs, "%%"+name+"%%", value)
	}
	return strings.NewReplacer(pairs...).Replace(template)
}

const noneLoaded = "  (none loaded)"

// toolLines lists the functions that a model can call: the executors, then the
// built-in tools.
func toolLines(s *catalog.Snapshot) string {
	var lines []string
	for _, t := range s.Executors() {
		lines = append(lines, fmt.Sprintf(`  - "%s": %s executor`, t.FunctionName(), t.Executor))
	}
	for _, t := range s.Builtins() {
		lines = append(lines, fmt.Sprintf(`  - "%s"%s: %s`, t.FunctionName(), argumentNames(t.Parameters), cmp.Or(firstSentence(t.Description), "built-in tool")))
	}
	return cmp.Or(strings.Join(lines, "\n"), noneLoaded)
}

// argumentNames lists the names of a schema's properties, required ones first: " {query, tag?}".
func argumentNames(parameters proto.Raw) string {
	var schema struct {
		Properties map[string]proto.Raw
		Required   []string
	}
	if json.Unmarshal(parameters, &schema) != nil || len(schema.Properties) == 0 {
		return ""
	}
	names := schema.Required
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if !slices.Contains(schema.Required, name) {
			names = append(names, name+"?")
		}
	}
	return " {" + strings.Join(names, ", ") + "}"
}

// firstSentence returns a text up to the first ".", "!" or "?" before a blank, on
// one line.
func firstSentence(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	for i, r := range line {
		if strings.ContainsRune(".!?", r) && strings.HasPrefix(line[i+1:], " ") {
			return line[:i+1]
		}
	}
	return line
}

// skillLines lists the skills that a model can delegate to.
func skillLines(s *catalog.Snapshot) string {
	var lines []string
	for _, k := range s.Skills {
		analysis := cmp.Or(k.StaticAnalysis, "none")
		lines = append(lines, fmt.Sprintf(`  - "%s": %s executor, static analysis: %s`, k.Name, k.Executor, analysis))
	}
	return cmp.Or(strings.Join(lines, "\n"), noneLoaded)
}
