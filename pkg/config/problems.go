package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Problems lists all mistakes in the file at path as lines "FILE:LINE:COLUMN: …", in
// the order of the file, and the warnings. Unknown keys are mistakes in every
// section. A syntax error is the only problem reported of its file.
func Problems(path string) (problems, warnings []string, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	f := &faults{c: Default(), file: path, dir: filepath.Dir(path)}
	if f.find(data) {
		f.readable("system_prompt_file", f.c.SystemPromptFile)
		f.c.warnOfReaders(path)
		f.warnOfSampling()
		f.warnOfEmbedding()
	}
	return f.lines(), f.c.Warnings, nil
}

// faults collects the mistakes in a file.
type faults struct {
	c         *Config // the file's values, without those of a wrong type
	file, dir string
	set       keys
	spans     []span
	list      []fault
}

// fault is one mistake. Line 0: in the file as a whole.
type fault struct {
	line, column int
	text         string
}

// span is an expression of the file: a key with its value, or a table header.
type span struct {
	key                // the key, or the table's name
	header, array bool // is a table header; of an array of tables
}

// find collects all mistakes. It reports whether the syntax is valid.
func (f *faults) find(data []byte) bool {
	err := checkSyntax(data)
	var set keys
	if err == nil {
		set, err = keysOf(data)
	}
	if err != nil {
		f.list = append(f.list, fault{text: place(f.file, nil, err).Error()})
		return false
	}
	f.set, f.spans = set, spansOf(data)
	for _, k := range set {
		if err := k.unknown(); err != nil {
			f.add(k, err.Error())
		}
	}
	f.decode(data)
	f.c.set = set
	f.c.resolveTwins(set)
	f.check()
	f.c.absolute()
	return true
}

func (f *faults) add(k key, text string) {
	f.list = append(f.list, fault{k.line, k.column, text})
}

// lines returns the mistakes as text without duplicates.
func (f *faults) lines() (lines []string) {
	slices.SortStableFunc(f.list, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column), cmp.Compare(a.text, b.text))
	})
	for _, p := range slices.Compact(f.list) {
		switch {
		case p.line > 0:
			lines = append(lines, fmt.Sprintf("%s:%d:%d: %s", f.file, p.line, p.column, p.text))
		case strings.HasPrefix(p.text, f.file+":"):
			lines = append(lines, p.text)
		default:
			lines = append(lines, f.file+": "+p.text)
		}
	}
	return lines
}

// spansOf lists the expressions of a file with valid syntax.
func spansOf(data []byte) (spans []span) {
	p := unstable.Parser{}
	p.Reset(data)
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			spans = append(spans, span{key: keyAt(&p, dotted(e.Key()), e.Child()), header: true, array: e.Kind == unstable.ArrayTable})
		case unstable.KeyValue:
			at := e.Key()
			at.Next()
			spans = append(spans, span{key: keyAt(&p, dotted(e.Key()), at.Node())})
		}
	}
	return spans
}

// decode reads the values. The decoder stops at the first value of a wrong type: decode
// reports it, overwrites it with blanks and starts again.
func (f *faults) decode(data []byte) {
	data = slices.Clone(data)
	for range len(f.spans) + 1 {
		c := Default()
		c.File, c.Dir = f.file, f.dir
		f.c = c
		err := toml.Unmarshal(data, c)
		if err == nil {
			return
		}
		e, ok := errors.AsType[*toml.DecodeError](err)
		if !ok {
			f.list = append(f.list, fault{text: strings.TrimPrefix(err.Error(), "toml: ")})
			return
		}
		line, column := e.Position()
		if !slices.ContainsFunc(f.list, func(p fault) bool { return p.line == line }) {
			f.list = append(f.list, fault{line, column, f.set.typeError(e)})
		}
		f.blank(data, line)
	}
}

// blank overwrites the expression at a line with blanks; of a table header also the
// table. Line numbers stay the same.
func (f *faults) blank(data []byte, line int) {
	from, to := 1, 1<<62
	header := false
	for _, s := range f.spans {
		if s.line <= line {
			from, header = s.line, s.header
		} else if !header || s.header {
			to = s.line
			break
		}
	}
	at := 1
	for i, c := range data {
		if c == '\n' {
			at++
		} else if at >= from && at < to {
			data[i] = ' '
		}
	}
}

// check reports the violated rules.
func (f *faults) check() {
	for _, r := range f.c.keyRules() {
		if !r.ok && f.set.has(r.key) { // else the value was set by its twin, which is reported
			f.add(f.at(r.key, span{}), r.message())
		}
	}
	for _, r := range f.c.mcpRules() {
		if i := slices.IndexFunc(f.set, func(k key) bool { return k.name == r.key || strings.HasPrefix(k.name, r.key+".") }); !r.ok && i >= 0 {
			f.add(f.set[i], r.message())
		}
	}
	f.checkTables()
}

// checkTables reports the violated rules of the entries of arrays of tables.
func (f *faults) checkTables() {
	for i, entry := range f.c.Rtr.Fallback {
		f.checkEntry("rtr.fallback", i, &Config{Rtr: Rtr{Fallback: []Fallback{entry}}})
	}
	for i, entry := range f.c.Rtr.Limit {
		f.checkEntry("rtr.limit", i, &Config{Rtr: Rtr{Limit: []Limit{entry}}})
	}
	for i, entry := range f.c.Rtr.Model {
		f.checkEntry("rtr.model", i, &Config{Rtr: Rtr{Model: []Model{entry}}})
	}
	for event, hooks := range f.c.Hooks.tables() {
		for i, entry := range *hooks {
			one := &Config{}
			*one.Hooks.tables()[event] = []Hook{entry}
			f.checkEntry("hooks."+event, i, one)
		}
	}
}

// checkEntry checks entry i of an array of tables. one has only this entry.
func (f *faults) checkEntry(array string, i int, one *Config) {
	var header span
	for _, s := range f.spans {
		if s.array && s.name == array {
			if i--; i < 0 {
				header = s
				break
			}
		}
	}
	for _, r := range one.tableRules() {
		if !r.ok {
			f.add(f.at(r.key, header), r.message())
		}
	}
}

// at returns the position of a key, below header if it has a line; without the key the
// header's position.
func (f *faults) at(name string, header span) key {
	end := 1 << 62
	for _, s := range f.spans {
		if s.header && s.line > header.line && header.line > 0 {
			end = s.line
			break
		}
	}
	for _, k := range f.set {
		if k.name == name && k.line >= header.line && k.line < end {
			return k
		}
	}
	return header.key
}

// warnOfSampling warns of a sampling parameter that the configured model, or a possible
// default model, does not support. Entries of [[rtr.model]] with refuses disable the
// warning.
func (f *faults) warnOfSampling() {
	model, why := cmp.Or(f.c.Service.Model, DefaultModels[f.c.Provider]), "%s takes no sampling parameters"
	if model == "" && f.c.API.BaseURL == "" && (f.c.Provider == "" || f.c.Provider == "auto") {
		model, why = DefaultModels["anthropic"], "with models that take no sampling parameters, such as %s"
	}
	if len(f.list) > 0 || !FixedSampling(model) || slices.ContainsFunc(f.c.Rtr.Model, func(m Model) bool { return m.Refuses != nil }) {
		return
	}
	for _, name := range []string{"temperature", "agent.temperature", "agent.top_p"} {
		if f.set.has(name) {
			k := f.at(name, span{})
			f.c.Warnings = append(f.c.Warnings, fmt.Sprintf("%s:%d:%d: %s has no effect: "+why, f.file, k.line, k.column, name, model))
		}
	}
}

// readable reports a configured file that cannot be read.
func (f *faults) readable(name, path string) {
	if path == "" {
		return
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err == nil {
		var file *os.File
		if file, err = os.Open(path); err == nil {
			err = file.Close()
		}
	}
	if err != nil {
		f.add(f.at(name, span{}), fmt.Sprintf("%s cannot be read: %v", name, err))
	}
}
