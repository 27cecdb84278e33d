package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"zino/pkg/audit/chain"
	"zino/pkg/audit/line"
	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	// fileMax is the size at which a new file is begun.
	fileMax = 64 << 20
	// syncEvery is the longest time until a record is on disk.
	syncEvery = time.Second
	// signEvery is the longest time until a record is covered by a checkpoint.
	signEvery = 10 * time.Minute
	// tailMax is how much of the end of a file is searched for its last record.
	tailMax = 4 * line.MaxLine
)

// writer appends to the files of one directory, which it locks.
type writer struct {
	dir     *os.Root
	key     string // of the signer
	fileMax int64
	now     func() time.Time
	mirror  func(signed []byte) error
	write   func(*os.File, []byte) (int, error) // os.File.Write; tests make it fail

	mu     sync.Mutex
	lock   *os.File
	f      *os.File // the present file
	name   string
	number int
	size   int64
	broken error     // the end of the file is not as it was: nothing can be appended
	seq    int64     // of the last record
	last   line.Hash // of its line; of no record zero
	signed int64     // the record of the last checkpoint
	synced int64     // the record that is on disk
	marks  *os.File  // the file of the checkpoints
	buf    []byte

	marksSize int64
	flushing  sync.Mutex // locked while a file is synced without mu
}

var self = line.Source{UID: os.Getuid(), PID: os.Getpid(), Src: chain.Self}

// openWriter opens the log in a directory, repairs its end, and reads or makes the key.
func openWriter(path, machine string) (_ *writer, err error) {
	if err := os.MkdirAll(path, durable.DirMode); err != nil {
		return nil, err
	}
	w := &writer{fileMax: fileMax, now: time.Now, mirror: func([]byte) error { return nil }, write: (*os.File).Write}
	if w.dir, err = os.OpenRoot(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.closeFiles()
		}
	}()
	if w.lock, err = w.dir.Open("."); err != nil {
		return nil, err
	}
	if err := durable.TryLock(w.lock); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := w.readKey(machine); err != nil {
		return nil, err
	}
	if err := w.openCheckpoints(); err != nil {
		return nil, err
	}
	dropped, err := w.openLast(path)
	if err != nil {
		return nil, err
	}
	if dropped > 0 {
		if err := w.own(proto.AuditRepaired, chain.Repaired{File: w.name, Dropped: dropped}, true); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// readKey reads the key, or makes one.
func (w *writer) readKey(machine string) error {
	key, err := w.dir.ReadFile(chain.KeyFile)
	if err == nil {
		w.key = string(bytes.TrimSpace(key))
		if _, err := chain.Sign(chain.Checkpoint{}, w.key); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(w.dir.Name(), chain.KeyFile), err)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	signer, verifier, err := chain.NewKey(machine)
	if err != nil {
		return err
	}
	w.key = signer
	if err := durable.Replace(w.dir, chain.VerifierFile, []byte(verifier+"\n")); err != nil {
		return err
	}
	return durable.Replace(w.dir, chain.KeyFile, []byte(signer+"\n"))
}

// openCheckpoints opens their file, removes an incomplete one at its end, and reads which
// record the last one covers.
func (w *writer) openCheckpoints() (err error) {
	if w.marks, err = w.dir.OpenFile(chain.CheckpointsFile, os.O_RDWR|os.O_CREATE, durable.FileMode); err != nil {
		return err
	}
	data, err := io.ReadAll(w.marks)
	if err != nil {
		return err
	}
	notes, size := chain.Split(data)
	if size < len(data) {
		if err := w.marks.Truncate(int64(size)); err != nil {
			return err
		}
	}
	w.marksSize = int64(size)
	if len(notes) > 0 {
		lines := bytes.SplitN(notes[len(notes)-1], []byte("\n"), 3)
		fmt.Sscan(string(lines[1]), &w.signed)
	}
	return durable.SyncDir(w.dir)
}

// openLast opens the last file at the end of its last record, and returns how many damaged
// bytes were removed behind it.
func (w *writer) openLast(path string) (dropped int64, err error) {
	paths, err := chain.Files(path)
	if err != nil {
		return 0, err
	}
	if len(paths) == 0 {
		return 0, w.openFile(1, os.O_EXCL)
	}
	name := filepath.Base(paths[len(paths)-1])
	if err := w.openFile(line.FileNumber(name), 0); err != nil {
		return 0, err
	}
	text, end, err := lastRecord(w.f)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(path, name), err)
	}
	if dropped = w.size - end; dropped > 0 {
		if err := w.f.Truncate(end); err != nil {
			return 0, err
		}
		w.size = end
	}
	for i := len(paths) - 2; text == nil && i >= 0; i-- { // the last file was just begun
		f, err := os.Open(paths[i])
		if err != nil {
			return 0, err
		}
		text, _, err = lastRecord(f)
		f.Close()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", paths[i], err)
		}
	}
	if text != nil {
		r, err := line.Parse(text)
		if err != nil {
			return 0, err
		}
		w.seq, w.last = r.Seq, line.Sum(text)
	}
	w.synced = w.seq
	return dropped, nil
}

// lastRecord returns the last record in a file and where it ends; nil for a file without
// records.
func lastRecord(f *os.File) (text []byte, end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	start := max(0, info.Size()-tailMax)
	data := make([]byte, info.Size()-start)
	if _, err := f.ReadAt(data, start); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	text, n := line.LastLine(data)
	if text == nil && start > 0 {
		return nil, 0, errors.New("its end has no record: check it with zino audit verify, and move it to another directory")
	}
	return text, start + int64(n), nil
}

// openFile opens the file with a number for appending.
func (w *writer) openFile(number, flag int) error {
	name := line.FileName(number)
	f, err := w.dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND|flag, durable.FileMode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = durable.SyncDir(w.dir)
	}
	if err != nil {
		f.Close()
		return err
	}
	if w.f != nil {
		w.f.Close()
	}
	w.f, w.name, w.number, w.size = f, name, number, info.Size()
	return nil
}

// append writes records and returns the number of the last one. After an error none of them
// is in the log.
func (w *writer) append(from line.Source, entries []proto.AuditEntry, sync bool) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return 0, w.broken
	}
	now, seq, last := w.now(), w.seq, w.last
	w.buf = w.buf[:0]
	for _, e := range entries {
		prev := ""
		if seq > 0 {
			prev = last.String()
		}
		start := len(w.buf)
		var err error
		if w.buf, err = line.Append(w.buf, seq+1, now, from, e, prev); err != nil {
			return 0, err
		}
		seq++
		last = line.Sum(w.buf[start:])
	}
	if w.seq+int64(len(entries))-w.signed > chain.CheckpointEvery {
		if err := w.checkpoint(); err != nil {
			return 0, err
		}
	}
	if w.size > 0 && w.size+int64(len(w.buf)) > w.fileMax {
		if err := w.rotate(); err != nil {
			return 0, err
		}
	}
	if n, err := w.write(w.f, w.buf); err != nil {
		if n > 0 {
			if err := w.f.Truncate(w.size); err != nil {
				w.broken = fmt.Errorf("%s: its end could not be restored, restart the service: %w", w.name, err)
			}
		}
		return 0, err
	}
	w.size += int64(len(w.buf))
	w.seq, w.last = seq, last
	if sync {
		if err := w.sync(); err != nil {
			return 0, err
		}
	}
	return w.seq, nil
}

// own appends a record of audit itself.
func (w *writer) own(kind string, data any, sync bool) error {
	text, err := wire.AppendObject(nil, "", data)
	if err != nil {
		return err
	}
	_, err = w.append(self, []proto.AuditEntry{{Kind: kind, Data: text}}, sync)
	return err
}

// sync returns when all records are on disk. mu is locked.
func (w *writer) sync() error {
	if w.synced == w.seq {
		return nil
	}
	if err := fdatasync(w.f); err != nil {
		return err
	}
	w.synced = w.seq
	return nil
}

func fdatasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// flush is sync for those who have not locked mu. It does not hold up records: their writes
// go on while the disk works.
func (w *writer) flush() error {
	w.mu.Lock()
	f, seq, due := w.f, w.seq, w.synced != w.seq
	w.mu.Unlock()
	if !due {
		return nil
	}
	w.flushing.Lock()
	err := fdatasync(f)
	w.flushing.Unlock() // before mu: rotate locks them in the other order
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f != f { // rotate has synced and closed it
		return nil
	}
	if err == nil {
		w.synced = max(w.synced, seq)
	}
	return err
}

// rotate begins a new file. mu is locked.
func (w *writer) rotate() error {
	if err := w.sync(); err != nil {
		return err
	}
	w.flushing.Lock() // it may use the file
	defer w.flushing.Unlock()
	return w.openFile(w.number+1, os.O_EXCL)
}

// checkpoint signs the last record, unless the last checkpoint covers it. mu is locked.
func (w *writer) checkpoint() error {
	if w.seq <= w.signed {
		return nil
	}
	if err := w.sync(); err != nil {
		return err
	}
	signed, err := chain.Sign(chain.Checkpoint{Seq: w.seq, Hash: w.last, Time: w.now()}, w.key)
	if err != nil {
		return err
	}
	if w.marksSize, err = appendAll(w.marks, w.marksSize, append(signed, '\n')); err != nil {
		return fmt.Errorf("%s: %w", chain.CheckpointsFile, err)
	}
	if err := fdatasync(w.marks); err != nil {
		return err
	}
	w.signed = w.seq
	w.mirror(signed)
	return nil
}

// appendAll appends data to a file of a size, and returns its new size. After an error the
// file has the old one.
func appendAll(f *os.File, size int64, data []byte) (int64, error) {
	if _, err := f.WriteAt(data, size); err != nil {
		return size, errors.Join(err, f.Truncate(size))
	}
	return size + int64(len(data)), nil
}

// sign signs the last record.
func (w *writer) sign() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checkpoint()
}

// close signs the last record and closes the files.
func (w *writer) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.checkpoint(), w.closeFiles())
}

func (w *writer) closeFiles() error {
	var errs []error
	for _, f := range []*os.File{w.f, w.marks, w.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(append(errs, w.dir.Close())...)
}

// prune removes files whose last record is older than a time.
func (w *writer) prune(before time.Time) error {
	paths, err := chain.Files(w.dir.Name())
	if err != nil {
		return err
	}
	var p chain.Pruned
	for _, path := range paths {
		if line.FileNumber(filepath.Base(path)) >= w.present() {
			break
		}
		first, last, err := ends(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		r, err := line.Parse(last)
		if err != nil || !r.Time().Before(before) {
			break
		}
		if len(p.Files) == 0 {
			p.First = first.Seq
		}
		p.Files, p.Last, p.Hash = append(p.Files, filepath.Base(path)), r.Seq, line.Sum(last).String()
	}
	if len(p.Files) == 0 {
		return nil
	}
	// The record first: without it the rest of the chain has no beginning.
	if err := w.own(proto.AuditPruned, p, true); err != nil {
		return err
	}
	for _, name := range p.Files {
		if err := w.dir.Remove(name); err != nil {
			return err
		}
	}
	return durable.SyncDir(w.dir)
}

// present returns the number of the present file.
func (w *writer) present() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.number
}

// ends returns the first and the last record in a file.
func ends(path string) (first line.Record, last []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return first, nil, err
	}
	defer f.Close()
	text, err := bufio.NewReaderSize(f, line.MaxLine).ReadSlice('\n')
	if err == nil {
		first, err = line.Parse(text)
	}
	if err != nil {
		return first, nil, err
	}
	last, _, err = lastRecord(f)
	return first, last, err
}
