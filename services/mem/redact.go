package mem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/durable"
	"zino/pkg/environ"
	"zino/pkg/mask"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// UseMask sets which secrets redactions mask besides the keys of providers. It must be
// called before the first request.
func (s *Service) UseMask(cfg config.Mask) { s.masks = mask.NewSource(cfg, s.problems.log) }

// masker returns the Masker of a redaction, and what it does not know.
func (s *Service) masker(with *proto.Masking) (m *mask.Masker, problems []string, err error) {
	env := os.Environ()
	m, err = s.masks.Masker(with, env, environ.Withheld(env, nil)...)
	if problem := s.masks.Problem(); problem != "" {
		problems = []string{"some configured secrets are not masked: " + problem}
	}
	return m, problems, err
}

// redactSession masks the secrets in a session. The daemon has it locked.
func (s *Service) redactSession(ctx context.Context, req proto.RedactSession) (proto.SessionRedacted, error) {
	reply := proto.SessionRedacted{SessionID: req.SessionID}
	m, problems, err := s.masker(req.Mask)
	if err != nil {
		return reply, err
	}
	reply.Problems = problems
	store, err := s.sessions.open()
	if err == nil {
		reply.Masked, err = store.Redact(ctx, req.SessionID, m, req.DryRun)
	}
	return reply, err
}

// redaction is a redact_store in progress.
type redaction struct {
	*Service
	*mask.Masker
	ctx    context.Context
	out    *rpc.Out
	dryRun bool
	done   proto.RedactDone
}

// redactStore masks the secrets in all that is not a session, and lists sessions.
func (s *Service) redactStore(ctx context.Context, req proto.RedactStore, out *rpc.Out) (proto.RedactDone, error) {
	m, problems, err := s.masker(req.Mask)
	if err != nil {
		return proto.RedactDone{}, err
	}
	store, err := s.sessions.open()
	if err != nil {
		return proto.RedactDone{}, err
	}
	r := &redaction{Service: s, Masker: m, ctx: ctx, out: out, dryRun: req.DryRun, done: proto.RedactDone{Problems: problems}}
	steps := []func() error{
		func() error {
			found := func(id string, n int) error { return r.report(proto.RedactedSession, id, n) }
			return store.WithSecrets(ctx, m, found, func(err error) { r.problem(err) })
		},
		r.channels, r.hard, r.proposalsFile, r.soft,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return r.done, err
		}
		if err := ctx.Err(); err != nil {
			return r.done, err
		}
	}
	return r.done, nil
}

// report sends a place with secrets.
func (r *redaction) report(what, name string, n int) error {
	if n == 0 {
		return nil
	}
	r.done.Masked += n
	if err := r.out.Event(proto.TypeRedacted, proto.Redacted{What: what, Name: name, Masked: n}); err != nil {
		return err
	}
	return r.out.Flush()
}

// problem keeps what could not be searched or changed: the rest is redacted.
func (r *redaction) problem(err error) {
	const problemsMax = 20
	if err != nil && len(r.done.Problems) < problemsMax {
		r.done.Problems = append(r.done.Problems, err.Error())
	}
}

// channels masks the histories, those in an earlier layout included.
func (r *redaction) channels() error {
	names, err := readNames(r.Service.channels)
	if err != nil {
		return fileError("channels", r.Service.channels.Name(), err)
	}
	for _, name := range names {
		id, ok := r.histories.channelOf(name)
		if !ok {
			continue
		}
		a := r.histories.acquire(name)
		n, err := r.file(r.Service.channels, name, a.File)
		r.histories.release(a)
		if err != nil {
			r.problem(fileError("channel "+id, filepath.Join(r.Service.channels.Name(), name), err))
			continue
		}
		if err := r.report(proto.RedactedChannel, id, n); err != nil {
			return err
		}
	}
	return nil
}

// hard masks the hard memories, and removes what was derived from them.
func (r *redaction) hard() error {
	m, ok := r.memories.(*memories)
	if !ok {
		return nil
	}
	n, err := r.file(r.root, hardFile, m.entries)
	if err == nil && n > 0 && !r.dryRun {
		if err = m.forgetSnapshot(r.ctx); err == nil && r.vectors != nil {
			err = r.vectors.prune(r.ctx, true)
		}
		r.forgetVectors()
	}
	if err != nil {
		r.problem(r.hardError(err))
	}
	return r.report(proto.RedactedMemory, "", n)
}

func (r *redaction) proposalsFile() error {
	n, err := r.file(r.root, proposalsFile, r.proposals)
	if err != nil {
		r.problem(r.proposalsError(err))
	}
	return r.report(proto.RedactedProposal, "", n)
}

func (r *redaction) soft() error {
	n, err := r.replace(r.root, softFile)
	if err != nil {
		r.problem(fileError("soft memory", filepath.Join(r.cfg.DataDir, softFile), err))
	}
	return r.report(proto.RedactedSoft, "", n)
}

// file masks a file while it is locked, and the damaged parts that were set apart from
// it.
func (r *redaction) file(root *os.Root, name string, f *durable.File) (masked int, err error) {
	err = f.Update(r.ctx, false, func(*durable.Tx) error {
		masked, err = r.replace(root, name)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	damaged, listErr := durable.Quarantined(root, name)
	err = errors.Join(err, listErr)
	for _, name := range damaged {
		n, part := r.replace(root, name)
		masked, err = masked+n, errors.Join(err, part)
	}
	return masked, err
}

// replace masks a file.
func (r *redaction) replace(root *os.Root, name string) (masked int, err error) {
	data, err := root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	clean, n := r.content(data)
	if n == 0 || r.dryRun {
		return n, nil
	}
	return n, durable.Replace(root, name, clean)
}

// content masks the strings of a JSON file or of its lines, and other lines as text.
func (r *redaction) content(data []byte) (masked []byte, count int) {
	if json.Valid(data) {
		return r.JSON(data)
	}
	for line := range bytes.Lines(data) {
		clean, n := line, 0
		if wire.Valid(bytes.Trim(line, "[], \t\r\n")) {
			clean, n = r.JSON(line)
		} else {
			clean, n = r.Text(line)
		}
		masked, count = append(masked, clean...), count+n
	}
	return masked, count
}

// forgetSnapshot removes the snapshot, which has the words of the memories. It waits for
// one that is being written.
func (m *memories) forgetSnapshot(ctx context.Context) error {
	if err := m.refresh(); err != nil {
		return err
	}
	for {
		m.turn.Lock()
		saving := m.saving
		if !saving {
			lock, err := durable.TryLockFile(m.root, snapshotLock)
			if saving = errors.Is(err, durable.ErrLocked); !saving {
				if err == nil {
					err = m.root.Remove(snapshotFile)
					if errors.Is(err, fs.ErrNotExist) {
						err = nil
					}
					err = errors.Join(err, lock.Unlock())
				}
				m.catalog.saved = 0
				m.turn.Unlock()
				return err
			}
		}
		m.turn.Unlock()
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func readNames(root *os.Root) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, ".") })
	return names, errors.Join(err, dir.Close())
}
