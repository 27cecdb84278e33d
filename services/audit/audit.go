// Package audit appends records of what the other services do to a log that can be
// verified: each line has the hash of the line before, and checkpoints are signed.
//
//	audit-000001.jsonl  the records, one a line; a new file is begun at 64 MiB
//	checkpoints         signed hashes of records, see golang.org/x/mod/sumdb/note
//	key, key.pub        the key of the signatures, and its public part
//
// Packages line and chain below zino/pkg/audit have the formats. No method alters or removes a record.
package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"zino/pkg/audit/chain"
	"zino/pkg/audit/line"
	"zino/pkg/config"
	"zino/pkg/durable"
	"zino/pkg/rpc"
	"zino/proto"
)

const (
	// batchMax is how many records a request may have.
	batchMax = 500
	// replyMax is how many bytes of lines a reply of read has.
	replyMax = 4 << 20
	// pruneEvery is the time between two looks for files that are too old.
	pruneEvery = time.Hour
)

// Service answers the methods of proto/audit.go from one data directory.
type Service struct {
	cfg        config.Audit
	log        *slog.Logger
	w          *writer
	dirty      chan struct{} // wakes keep
	done       chan struct{}
	background sync.WaitGroup

	mu    sync.Mutex
	names map[int]string // of services, by uid
	full  error          // why the last records were not stored
}

// Open opens the log of a data directory, which it creates if it does not exist.
func Open(cfg config.Audit, log *slog.Logger) (*Service, error) {
	machine, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	w, err := openWriter(cfg.DataDir, machine)
	if err != nil {
		return nil, fmt.Errorf("[audit] data_dir: %w", err)
	}
	s := &Service{cfg: cfg, log: log, w: w, dirty: make(chan struct{}, 1), done: make(chan struct{}), names: map[int]string{}}
	w.mirror = s.mirror
	if err := w.own(proto.AuditStart, chain.Started{Signed: w.signed, Version: rpc.Build}, false); err != nil {
		return nil, errors.Join(fmt.Errorf("[audit] data_dir: %w", err), w.close())
	}
	s.dirty <- struct{}{}
	s.background.Go(s.keep)
	return s, nil
}

// Register adds the methods to srv.
func (s *Service) Register(srv *rpc.Server) {
	rpc.Handle(srv, proto.AuditRecord, s.record)
	rpc.Handle(srv, proto.AuditRead, s.read)
	srv.OnStats(s.stats)
}

// Close signs the last record and closes the files.
func (s *Service) Close() error {
	close(s.done)
	s.background.Wait()
	return s.w.close()
}

func (s *Service) stats(st *proto.Stats) {
	if st.Info == nil {
		st.Info = map[string]string{}
	}
	s.w.mu.Lock()
	st.Info["records"] = strconv.FormatInt(s.w.seq, 10)
	st.Info["signed"] = strconv.FormatInt(s.w.signed, 10)
	s.w.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		st.Problems = append(st.Problems, "records are refused: "+s.full.Error())
	}
}

// record appends records.
func (s *Service) record(ctx context.Context, req proto.RecordAudit) (proto.AuditRecorded, error) {
	switch {
	case len(req.Records) == 0:
		return proto.AuditRecorded{}, proto.Errorf(proto.CodeInvalid, "there are no records")
	case len(req.Records) > batchMax:
		return proto.AuditRecorded{}, proto.Errorf(proto.CodeTooLarge, "%d records: send at most %d at a time", len(req.Records), batchMax)
	}
	from, err := s.source(ctx, req.Src)
	if err != nil {
		return proto.AuditRecorded{}, err
	}
	for i := range req.Records {
		e := &req.Records[i]
		if !isWord(e.Kind) {
			return proto.AuditRecorded{}, proto.Errorf(proto.CodeInvalid, "invalid kind %.40q: use up to 32 lower-case letters and _", e.Kind)
		}
		if len(e.Data) > 0 && e.Data[0] != '{' {
			return proto.AuditRecorded{}, proto.Errorf(proto.CodeInvalid, "data must be an object")
		}
	}
	seq, err := s.w.append(from, req.Records, req.Sync)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := errors.AsType[*proto.Error](err); ok {
		return proto.AuditRecorded{}, err
	}
	if err != nil {
		if s.full == nil {
			s.log.Error("cannot store records", "error", err)
		}
		s.full = err
		return proto.AuditRecorded{}, &proto.Error{Code: proto.CodeUnavailable, Message: "cannot store the records: " + err.Error()}
	}
	s.full = nil
	select {
	case s.dirty <- struct{}{}:
	default: // keep is awake
	}
	return proto.AuditRecorded{Seq: seq}, nil
}

// isWord reports whether text may name a kind or a service.
func isWord(text string) bool {
	return text != "" && len(text) <= 32 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// source returns who sends a request: the service that the user stands for. Services with the
// user of audit say it themselves.
func (s *Service) source(ctx context.Context, src string) (line.Source, error) {
	uid := rpc.PeerUID(ctx)
	from := line.Source{UID: uid, PID: rpc.PeerPID(ctx), Src: src}
	if uid != os.Geteuid() {
		from.Src = s.nameOf(uid)
	}
	if !isWord(from.Src) || from.Src == chain.Self {
		return from, proto.Errorf(proto.CodeInvalid, "invalid src %.40q: name the service that sends the records", from.Src)
	}
	return from, nil
}

// nameOf returns the service of a user, such as zino-exc.
func (s *Service) nameOf(uid int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, ok := s.names[uid]
	if !ok {
		name = "unknown"
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && isWord(strings.TrimPrefix(u.Username, "zino-")) {
			name = strings.TrimPrefix(u.Username, "zino-")
		}
		s.names[uid] = name
	}
	return name
}

// keep puts records on disk, signs them and removes old files, each in its time.
func (s *Service) keep() {
	var flush, sign <-chan time.Time
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	s.prune()
	failed := func(what string, err error) {
		if err != nil {
			s.log.Error(what, "error", err)
		}
	}
	for {
		select {
		case <-s.dirty:
			if flush == nil {
				flush = time.After(syncEvery)
			}
			if sign == nil {
				sign = time.After(signEvery)
			}
		case <-flush:
			flush = nil
			failed("records may not be on disk", s.w.flush())
		case <-sign:
			sign = nil
			failed("cannot sign a checkpoint", s.w.sign())
		case <-prune.C:
			s.prune()
		case <-s.done:
			return
		}
	}
}

func (s *Service) prune() {
	if s.cfg.KeepDays == 0 {
		return
	}
	if err := s.w.prune(time.Now().AddDate(0, 0, -s.cfg.KeepDays)); err != nil {
		s.log.Error("cannot remove old files", "error", err)
	}
}

// mirror copies a checkpoint to where [audit] mirror says.
func (s *Service) mirror(signed []byte) error {
	switch s.cfg.Mirror {
	case config.MirrorNone:
		return nil
	case config.MirrorJournal:
		// Whatever the level of the log is.
		r := slog.NewRecord(time.Now(), slog.LevelInfo, "checkpoint", 0)
		r.AddAttrs(slog.String("note", string(signed)))
		return s.log.Handler().Handle(context.Background(), r)
	}
	f, err := os.OpenFile(s.cfg.Mirror, os.O_WRONLY|os.O_CREATE|os.O_APPEND, durable.FileMode)
	if err == nil {
		_, err = f.Write(append(bytes.Clone(signed), '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.log.Error("cannot write the mirror of the checkpoints", "error", err)
	}
	return nil
}

// read returns records.
func (s *Service) read(_ context.Context, req proto.ReadAudit) (proto.AuditRecords, error) {
	if req.Since != "" {
		since, err := time.Parse(time.RFC3339, req.Since)
		if err != nil {
			return proto.AuditRecords{}, proto.Errorf(proto.CodeInvalid, "invalid since %.40q: want a time in RFC 3339", req.Since)
		}
		req.Since = since.UTC().Format(line.TimeFormat)
	}
	reply := proto.AuditRecords{Lines: []string{}}
	paths, err := chain.Files(s.w.dir.Name())
	if err != nil {
		return reply, err
	}
	size := 0
	for i, path := range paths {
		if i+1 < len(paths) && req.From > 0 {
			if first, _, err := ends(paths[i+1]); err == nil && first.Seq <= req.From {
				continue // all records of this file come before
			}
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return reply, err
		}
		in := bufio.NewReaderSize(f, line.MaxLine)
		for err == nil {
			var text []byte
			if text, err = in.ReadSlice('\n'); err != nil {
				break
			}
			r, parseErr := line.Parse(text)
			if parseErr != nil || r.Seq < req.From || !strings.HasPrefix(r.Session, req.Session) || req.Turn != "" && r.Turn != req.Turn ||
				req.Kind != "" && r.Kind != req.Kind || r.TS < req.Since {
				continue
			}
			if size += len(text); size > replyMax {
				reply.Next = r.Seq
				break
			}
			reply.Lines = append(reply.Lines, string(bytes.TrimSuffix(text, []byte("\n"))))
		}
		f.Close()
		if reply.Next != 0 {
			return reply, nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return reply, err
		}
	}
	return reply, nil
}
