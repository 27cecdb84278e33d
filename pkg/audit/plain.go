package audit

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"zino/pkg/audit/line"
	"zino/pkg/durable"
	"zino/pkg/keys"
	"zino/proto"
)

// plainMax is the size at which a plain log is renamed.
const plainMax = 64 << 20

// plain is a plain log, which several services append to. When it is full it is renamed to
// OldPlain of its path, in place of the one before.
type plain struct {
	path string
	max  int64 // bytes
	f    *os.File
	from line.Source
}

// PlainPath returns the path of the user's plain log.
func PlainPath() (string, error) {
	base, err := keys.Base(os.Getenv)
	return filepath.Join(base, "log", line.PlainFile), err
}

// OldPlain returns the path of the full log before the one at path.
func OldPlain(path string) string { return path + ".1" }

func openPlain(service string) (*plain, error) {
	path, err := PlainPath()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), durable.DirMode); err != nil {
		return nil, err
	}
	p := &plain{path: path, max: plainMax, from: line.Source{UID: os.Geteuid(), PID: os.Getpid(), Src: service}}
	p.f, err = openAppend(path)
	return p, err
}

func openAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, durable.FileMode)
}

func (p *plain) send(ctx context.Context, list []proto.AuditEntry, sync bool) error {
	var b []byte
	for _, e := range list {
		var err error
		if b, err = line.Append(b, 0, time.Now(), p.from, e, ""); err != nil {
			return err
		}
	}
	if err := p.renew(ctx, int64(len(b))); err != nil {
		return err
	}
	_, err := p.f.Write(b)
	if err == nil && sync {
		err = p.f.Sync()
	}
	return err
}

// renew opens the log again if it was renamed by another service or removed by the user, and
// renames it itself if n more bytes would exceed max.
func (p *plain) renew(ctx context.Context, n int64) error {
	size, same := p.current()
	if same && (size == 0 || size+n <= p.max) {
		return nil
	}
	if same {
		if err := durable.Lock(ctx, p.f); err != nil {
			return err
		}
		if _, same := p.current(); same { // else another service was faster
			if err := os.Rename(p.path, OldPlain(p.path)); err != nil {
				return err
			}
		}
	}
	f, err := openAppend(p.path)
	if err != nil {
		return err
	}
	p.f.Close() // and with it the lock; what was written has no error to report
	p.f = f
	return nil
}

// current returns the size of the file at the log's path, and whether it is the open one.
func (p *plain) current() (size int64, same bool) {
	open, err := p.f.Stat()
	if err != nil {
		return 0, false
	}
	at, err := os.Stat(p.path)
	return open.Size(), err == nil && os.SameFile(open, at)
}
