// Package mem stores the histories of channels, the hard memories, which are
// searched by their words, the soft memory, which is a text in the system prompt,
// and the sessions of the terminal agent. All files are human-readable:
//
//	channels/ID.json     a JSON array of messages per channel, one a line
//	hard_memories.json   a JSON array of {"messages","tag",…}, one a line
//	proposals.jsonl      the proposed memories, one a line
//	soft_memory.txt      the text, byte for byte
//	sessions/ID.jsonl    the events of a terminal session, one a line
//	sessions/ID.files/   its attachments, by SHA-256
//	embeddings/HASH.vec  vectors of the hard memories, if [mem] embed names a model: a
//	                     cache, and the only file that is not text
//
// A write is acknowledged when it is on disk. Several processes may share a data
// directory.
package mem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/durable"
	"zino/pkg/mask"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/mem/store"
)

// Service answers the methods of proto/mem.go from one data directory.
type Service struct {
	cfg       config.Mem
	root      *os.Root // the data directory
	channels  *os.Root // its channels/
	problems  *problems
	histories *histories
	memories  store.Store
	vectors   *vectors // nil: switched off
	proposals *durable.File
	now       func() time.Time
	room      int // maximum bytes of a list in a reply
	sessions  *sessions
	masks     *mask.Source
}

// Open creates the data directory if it does not exist and starts to read the hard
// memories.
func Open(cfg config.Mem, log *slog.Logger) (*Service, error) {
	if cfg.Durability != "fsync" && cfg.Durability != "os" {
		return nil, fmt.Errorf(`[mem] durability = %q: it must be "fsync" or "os"`, cfg.Durability)
	}
	s := &Service{cfg: cfg, problems: newProblems(log), now: time.Now}
	if err := s.openDirs(); err != nil {
		path := cfg.DataDir
		if file, ok := errors.AsType[*fs.PathError](err); ok && filepath.Base(file.Path) == channelsDir {
			path = filepath.Join(path, channelsDir)
		}
		err := fileError("[mem] data_dir", path, err)
		if durable.Remedy(err) == "" {
			err = fmt.Errorf("%w; set ZINO_HOME, or [mem] data_dir, to a directory that can be written", err)
		}
		return nil, err
	}
	noSync := cfg.Durability == "os"
	s.histories = newHistories(s.channels, s.problems, noSync)
	s.room = frameRoom
	s.sessions = newSessions(cfg, s.problems)
	s.UseMask(config.Default().Mask)
	s.sessions.dropIndex()
	s.memories = openMemories(s.root, s.problems, noSync)
	s.proposals = durable.New(s.root, proposalsFile, durable.Options{NoSync: noSync, Report: s.problems.reporter(s.root, "")})
	return s, nil
}

// channelsDir is the directory of the histories in the data directory.
const channelsDir = "channels"

// openDirs opens the data directory and channels/. It makes channels/ private, which
// older versions did not, but keeps the permissions of the data directory, which
// the administrator chooses.
func (s *Service) openDirs() (err error) {
	if err := os.MkdirAll(s.cfg.DataDir, durable.DirMode); err != nil {
		return err
	}
	if s.root, err = os.OpenRoot(s.cfg.DataDir); err != nil {
		return err
	}
	if err := s.root.Mkdir(channelsDir, durable.DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return errors.Join(err, s.root.Close())
	}
	if s.channels, err = s.root.OpenRoot(channelsDir); err != nil {
		return errors.Join(err, s.root.Close())
	}
	err = makePrivate(s.channels, s.problems)
	if err == nil {
		err = durable.SyncDir(s.root)
	}
	if err != nil {
		return errors.Join(err, s.channels.Close(), s.root.Close())
	}
	return nil
}

// makePrivate removes the permissions of group and others from a directory. If that
// fails because the file system is read-only or another user owns the directory,
// it reports a problem and returns nil.
func makePrivate(root *os.Root, p *problems) error {
	fi, err := root.Stat(".")
	if err != nil || fi.Mode().Perm()&0o077 == 0 {
		return err
	}
	err = root.Chmod(".", fi.Mode().Perm()&durable.DirMode)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		p.set("open "+root.Name(), fileError("other users may open this directory", root.Name(), err).Error(), nil)
		return nil
	}
	return err
}

// Register adds mem's methods to srv, and problems of the files to its stats.
func (s *Service) Register(srv *rpc.Server) {
	rpc.Handle(srv, proto.MemGetHistory, s.getHistory)
	rpc.Handle(srv, proto.MemAppendHistory, s.appendHistory)
	rpc.Handle(srv, proto.MemClearHistory, s.clearHistory)
	rpc.Handle(srv, proto.MemSearchHard, s.searchHard)
	rpc.Handle(srv, proto.MemStoreHard, s.storeHard)
	rpc.Handle(srv, proto.MemListHard, s.listHard)
	rpc.Handle(srv, proto.MemGetHard, s.getHard)
	rpc.Handle(srv, proto.MemUpdateHard, s.updateHard)
	rpc.Handle(srv, proto.MemDeleteHard, s.deleteHard)
	rpc.Handle(srv, proto.MemListProposals, s.listProposals)
	rpc.Handle(srv, proto.MemAcceptProposal, s.acceptProposal)
	rpc.Handle(srv, proto.MemRejectProposal, s.rejectProposal)
	rpc.Handle(srv, proto.MemEmbedHard, s.embedHard)
	rpc.Handle(srv, proto.MemListChannels, s.listChannels)
	rpc.Handle(srv, proto.MemGetSoft, s.getSoft)
	rpc.Handle(srv, proto.MemSetSoft, s.setSoft)
	s.sessions.register(srv)
	rpc.Handle(srv, proto.MemRedactSession, s.redactSession)
	rpc.HandleEvents(srv, proto.MemRedactStore, s.redactStore)
	srv.OnStats(s.stats)
	if s.vectors != nil {
		srv.KeepWhile(s.vectors.working)
	}
}

// Close closes the files.
func (s *Service) Close() error {
	s.histories.close()
	var err error
	if s.vectors != nil {
		err = s.vectors.close()
	}
	return errors.Join(err, s.memories.Close(), s.sessions.close(), s.channels.Close(), s.root.Close())
}

func (s *Service) stats(st *proto.Stats) {
	hard, err := s.memories.Len(context.Background())
	if err != nil {
		st.Problems = append(st.Problems, s.hardError(err).Error())
	}
	if s.vectors != nil {
		if err := s.vectors.fits(context.Background()); err != nil {
			st.Problems = append(st.Problems, err.Error())
		}
	}
	st.Problems = append(st.Problems, s.problems.list()...)
	if st.Info == nil {
		st.Info = map[string]string{}
	}
	st.Info["data_dir"] = s.cfg.DataDir
	st.Info["durability"] = s.cfg.Durability
	st.Info["sessions_dir"] = s.sessions.dir
	st.Info["hard_memories"] = strconv.Itoa(hard)
}

// fileError returns a one-line error about a file: its purpose, its path, the cause
// and what to do about it.
func fileError(what, file string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &lineError{strings.ReplaceAll(fmt.Sprintf("%s: %s: %v%s", what, file, err, durable.Remedy(err)), "\n", "; "), err}
}

type lineError struct {
	text  string
	cause error
}

func (e *lineError) Error() string { return e.text }
func (e *lineError) Unwrap() error { return e.cause }

const softFile = "soft_memory.txt"

func (s *Service) getSoft(context.Context, proto.GetSoft) (proto.SoftMemory, error) {
	data, err := s.root.ReadFile(softFile)
	if errors.Is(err, fs.ErrNotExist) {
		return proto.SoftMemory{}, nil
	}
	if err != nil {
		return proto.SoftMemory{}, fileError("soft memory", filepath.Join(s.cfg.DataDir, softFile), err)
	}
	return proto.SoftMemory{Content: strings.ToValidUTF8(string(data), "\ufffd"), Set: true}, nil
}

func (s *Service) setSoft(_ context.Context, req proto.SetSoft) (proto.Empty, error) {
	if err := durable.Replace(s.root, softFile, []byte(req.Content)); err != nil {
		return proto.Empty{}, fileError("soft memory", filepath.Join(s.cfg.DataDir, softFile), err)
	}
	return proto.Empty{}, nil
}

// maxProblems limits the problems in stats; the log contains all of them.
const maxProblems = 100

// problems are damaged or unusable files that a person should repair. Each problem
// is logged once and shown in stats until it is repaired.
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

// set sets the problem with this key; an empty text removes it. gone, if not nil,
// reports whether the problem was repaired.
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

// reporter returns a durable.Options.Report function for the files in root, which
// messages call prefix+name. A damaged file is a problem as long as the quarantined
// file exists.
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

// changed returns a function that reports whether the named file was changed or
// removed since the call of changed.
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
