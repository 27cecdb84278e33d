// Package mem is the memory: histories of channels, hard memories that are
// found by their words, the soft memory, a text in the system prompt, and the
// sessions of the terminal agent. All of it lies in files that people can read:
//
//	channels/ID.json     a JSON array of messages per channel, one a line
//	hard_memories.json   a JSON array of {"messages","tag",…}, one a line
//	soft_memory.txt      the text, byte for byte
//	sessions/ID.jsonl    the events of a terminal session, one a line
//
// A request that stores something is answered when it is on disk. Several
// processes may work in one data directory.
package mem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"zino/pkg/config"
	"zino/pkg/durable"
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
	room      int // bytes of a list in a reply
	sessions  *sessions
}

// Open makes the data directory if need be and reads the hard memories in it.
func Open(cfg config.Mem, log *slog.Logger) (*Service, error) {
	if cfg.Durability != "fsync" && cfg.Durability != "os" {
		return nil, fmt.Errorf(`[mem] durability = %q: it must be "fsync" or "os"`, cfg.Durability)
	}
	s := &Service{cfg: cfg, problems: newProblems(log)}
	if err := s.openDirs(); err != nil {
		path := cfg.DataDir
		if file, ok := errors.AsType[*fs.PathError](err); ok && filepath.Base(file.Path) == channelsDir {
			path = filepath.Join(path, channelsDir)
		}
		worded := fileError("[mem] data_dir", path, err)
		if durable.Remedy(err) == "" {
			worded = fmt.Errorf("%w; set ZINO_HOME, or [mem] data_dir, to a directory that can be written", worded)
		}
		return nil, worded
	}
	noSync := cfg.Durability == "os"
	s.histories = newHistories(s.channels, s.problems, noSync)
	s.room = frameRoom
	s.sessions = newSessions(cfg, s.problems)
	s.memories = openMemories(s.root, s.problems, noSync)
	return s, nil
}

// channelsDir is the directory of the histories in the data directory.
const channelsDir = "channels"

// openDirs opens the directories. Those of an older version may be open to
// others. The permissions of the data directory itself are the administrator's.
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
	err = closeToOthers(s.channels, s.problems)
	if err == nil {
		err = durable.SyncDir(s.root)
	}
	if err != nil {
		return errors.Join(err, s.channels.Close(), s.root.Close())
	}
	return nil
}

// closeToOthers takes the permissions of group and others from a directory. One
// that cannot be changed, since it is on a read-only file system or another
// user's, is served all the same and reported.
func closeToOthers(root *os.Root, p *problems) error {
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

// Register has srv answer mem's methods, and show in its stats what is wrong
// with the files.
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
	rpc.Handle(srv, proto.MemListChannels, s.listChannels)
	rpc.Handle(srv, proto.MemGetSoft, s.getSoft)
	rpc.Handle(srv, proto.MemSetSoft, s.setSoft)
	s.sessions.register(srv)
	srv.OnStats(s.stats)
}

// Close closes the files. Everything that was answered is on disk before.
func (s *Service) Close() error {
	s.histories.close()
	return errors.Join(s.memories.Close(), s.sessions.close(), s.channels.Close(), s.root.Close())
}

func (s *Service) stats(st *proto.Stats) {
	hard, err := s.memories.Len(context.Background())
	if err != nil {
		st.Problems = append(st.Problems, s.hardError(err).Error())
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

// fileError words an error about a file: what it belongs to, the cause, and
// what to do about it. It is one line.
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
