package mem

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"

	"zino/pkg/durable"
)

// maxProblems limits what is kept for stats; the log has all.
const maxProblems = 100

// problems are things that a person should mend. Each is logged when it is
// found and shown until it is gone.
type problems struct {
	log *slog.Logger

	mu   sync.Mutex
	open []problem
}

type problem struct {
	key  string
	text string
	gone func() bool
}

func newProblems(log *slog.Logger) *problems { return &problems{log: log} }

// set makes text the problem under key; an empty one ends it. gone, if given,
// tells when somebody has dealt with it.
func (p *problems) set(key, text string, gone func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.open, func(o problem) bool { return o.key == key })
	if i >= 0 {
		if p.open[i].text == text {
			return
		}
		p.open = slices.Delete(p.open, i, i+1)
	}
	if text == "" {
		return
	}
	p.log.Warn(text)
	if len(p.open) == maxProblems {
		p.open = slices.Delete(p.open, 0, 1)
	}
	p.open = append(p.open, problem{key, text, gone})
}

// list returns the problems that are left.
func (p *problems) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = slices.DeleteFunc(p.open, func(o problem) bool { return o.gone != nil && o.gone() })
	list := []string{}
	for _, o := range p.open {
		list = append(list, o.text)
	}
	return list
}

// reporter takes the events of the files in root, which are called prefix+name
// to people. A damaged file is a problem as long as what was kept of it is there.
func (p *problems) reporter(root *os.Root, prefix string) func(durable.Event) {
	return func(e durable.Event) {
		name, kept := e.Name, e.Kept
		e.Name = prefix + name
		switch {
		case e.Err != nil:
			p.set("file "+e.Name, e.String(), changed(root, name))
		case e.Kind == durable.Damaged, e.Kind == durable.Cut:
			e.Kept = prefix + kept
			p.set("file "+e.Name, e.String(), func() bool {
				_, err := root.Lstat(kept)
				return errors.Is(err, fs.ErrNotExist)
			})
		default:
			p.set("file "+e.Name, "", nil)
			p.log.Info(e.String())
		}
	}
}

// changed returns a function that tells whether the named file is another one
// than now, or gone.
func changed(root *os.Root, name string) func() bool {
	then, err := root.Lstat(name)
	return func() bool {
		now, nowErr := root.Lstat(name)
		if err != nil || nowErr != nil {
			return nowErr == nil || errors.Is(nowErr, fs.ErrNotExist)
		}
		return now.Size() != then.Size() || !now.ModTime().Equal(then.ModTime())
	}
}
