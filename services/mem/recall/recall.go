// Package recall finds what was said in earlier sessions. Its documents are the messages
// of user and assistant, and the tool calls. A score consists of that of the document,
// by the formula of package index, those of the messages before and behind it, and that
// of the whole session.
//
// The index is one file per session in .recall/, named after the log, with hashes of
// terms and without text. It is brought up to date by searches, never by appends, and
// may be deleted at any time. A search reads all index files and keeps nothing: excerpts
// come from the logs.
package recall

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/durable"
	"zino/services/mem/session"
)

const (
	dirName = ".recall"
	fileEnd = ".idx"

	// buildTime limits how long a search builds; the rest is built in the background.
	buildTime = 2 * time.Second
	// sessionsMax and bytesMax limit what a search reads: the newest sessions.
	sessionsMax = 5000
	bytesMax    = 256 << 20
)

// Index is the index of a directory of sessions. It is safe for concurrent use, also by
// several processes.
type Index struct {
	root   *os.Root // the sessions
	store  *session.Store
	report func(problem string)

	buildTime time.Duration
	bytesMax  int

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running atomic.Bool // the background build
	group   sync.WaitGroup
}

// New returns the index of the sessions in root. report is called with the reason why
// the index cannot be kept in files, and with an empty text if it can be.
func New(root *os.Root, store *session.Store, report func(problem string)) *Index {
	x := &Index{root: root, store: store, report: report, buildTime: buildTime, bytesMax: bytesMax}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// Close stops the background build.
func (x *Index) Close() {
	x.cancel()
	x.group.Wait()
}

// Forget removes the index of a session.
func Forget(root *os.Root, id string) error {
	err := root.Remove(filepath.Join(dirName, fileName(id)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Delete removes the index of all sessions.
func Delete(root *os.Root) error { return root.RemoveAll(dirName) }

func fileName(id string) string { return session.LogName(id) + fileEnd }

// newPass returns a pass that builds until ctx ends.
func (x *Index) newPass(ctx context.Context) *pass {
	p := &pass{x: x, ctx: ctx}
	err := x.root.Mkdir(dirName, durable.DirMode)
	if err == nil || errors.Is(err, fs.ErrExist) {
		p.dir, err = x.root.OpenRoot(dirName)
	}
	if err != nil {
		p.cannotKeep(err)
	}
	return p
}

// clean removes the index files of sessions that were removed.
func (x *Index) clean(dir *os.Root, logs []session.Log) error {
	open, err := dir.Open(".")
	if err != nil {
		return err
	}
	names, err := open.Readdirnames(-1)
	open.Close()
	exists := make(map[string]bool, len(logs))
	for _, log := range logs {
		exists[fileName(log.ID)] = true
	}
	for _, name := range names {
		log, ours := strings.CutSuffix(name, fileEnd)
		if exists[name] || !ours {
			continue
		}
		if _, gone := x.root.Lstat(log); errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, dir.Remove(name))
		}
	}
	return err
}

// buildRest builds in the background what a search had no time for.
func (x *Index) buildRest() {
	if !x.running.CompareAndSwap(false, true) {
		return
	}
	x.group.Go(func() {
		defer x.running.Store(false)
		p := x.newPass(x.ctx)
		defer p.close()
		logs, err := x.store.Logs(x.ctx)
		if err != nil || p.dir == nil {
			return
		}
		for _, log := range logs[:min(len(logs), sessionsMax)] {
			_, _, _ = p.image(log) // a session that cannot be read is in no result
			if x.ctx.Err() != nil {
				return
			}
		}
	})
}
