package chain

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"zino/pkg/audit/line"
	"zino/pkg/wire"
	"zino/proto"
)

// Report is what was verified.
type Report struct {
	Records     int64 // that are kept
	Checkpoints int   // in the file
	First, Last int64 // numbers of the first and the last record; 0: the log is empty
	Signed      int64 // the number of the last record that a checkpoint covers
}

// String is the report for people.
func (r Report) String() string {
	s := fmt.Sprintf("%d records, %d checkpoints, verified up to %d", r.Records, r.Checkpoints, r.Signed)
	if n := r.Last - max(r.Signed, r.First-1); r.Last > 0 && n > 0 {
		s += fmt.Sprintf("; last %d not yet signed", n)
	}
	return s
}

// Problem is the first record that is not as it was written.
type Problem struct {
	Seq  int64
	What string
}

func (p *Problem) Error() string { return fmt.Sprintf("record %d: %s", p.Seq, p.What) }

func bad(seq int64, format string, args ...any) error {
	return &Problem{seq, fmt.Sprintf(format, args...)}
}

// ErrPlain is the error for a plain log, whose records have no hashes.
var ErrPlain = errors.New("this is a plain log: nothing to verify")

// Files returns the files of a log in a directory, in their order.
func Files(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		if n := line.FileNumber(e.Name()); n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		paths = append(paths, filepath.Join(dir, line.FileName(n)))
	}
	return paths, nil
}

// expected are the hashes that checkpoints name, by the number of their record.
type expected struct {
	hashes map[int64][]line.Hash
	last   int64
}

func (x *expected) add(notes [][]byte, key string) (seqs []int64, err error) {
	for i, n := range notes {
		c, err := Open(n, key)
		if err != nil {
			return nil, fmt.Errorf("checkpoint %d: %w", i+1, err)
		}
		x.hashes[c.Seq] = append(x.hashes[c.Seq], c.Hash)
		x.last = max(x.last, c.Seq)
		seqs = append(seqs, c.Seq)
	}
	return seqs, nil
}

// Verify checks all records in a directory, and its checkpoints with a verifier key. mirror
// has the checkpoints that were kept elsewhere, nil for none. The error is a *Problem if a
// record is not as it was written.
func Verify(dir, key string, mirror []byte) (r Report, err error) {
	// The checkpoints first: the service may write meanwhile.
	data, checkpointsErr := os.ReadFile(filepath.Join(dir, CheckpointsFile))
	if checkpointsErr != nil && !errors.Is(checkpointsErr, fs.ErrNotExist) {
		return r, checkpointsErr
	}
	paths, err := Files(dir)
	if err != nil {
		return r, err
	}
	if len(paths) == 0 {
		if _, err := os.Stat(filepath.Join(dir, line.PlainFile)); err == nil {
			return r, ErrPlain
		}
		return r, fmt.Errorf("%s: no audit log found", dir)
	}
	x := expected{hashes: map[int64][]line.Hash{}}
	notes, _ := Split(data)
	seqs, err := x.add(notes, key)
	if err != nil {
		return r, err
	}
	r.Checkpoints = len(notes)
	copies, _ := Split(mirror)
	if _, err := x.add(copies, key); err != nil {
		return r, fmt.Errorf("mirror: %w", err)
	}
	w := walk{report: &r, expected: &x, seqs: seqs}
	for _, path := range paths {
		if err := w.file(path); err != nil {
			return r, err
		}
	}
	switch {
	case r.First > 1 && !w.pruned:
		return r, bad(r.First, "the records before it are missing")
	case x.last > r.Last:
		return r, bad(r.Last+1, "it is missing, a checkpoint names record %d", x.last)
	case checkpointsErr != nil && r.Records > 0:
		return r, bad(r.First, "the file %s is missing", CheckpointsFile)
	}
	return r, nil
}

// walk follows the chain.
type walk struct {
	report   *Report
	expected *expected
	seqs     []int64   // of the checkpoints in the file
	last     line.Hash // of the last record
	start    string    // the hash that the first record names, where it is not the first of all
	pruned   bool      // a record says that the records before it were removed
}

// file checks the records in a file.
func (w *walk) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, line.MaxLine)
	for {
		text, err := in.ReadSlice('\n')
		if len(text) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		next := w.report.Last + 1
		switch {
		case errors.Is(err, io.EOF):
			return bad(next, "the line is incomplete")
		case errors.Is(err, bufio.ErrBufferFull):
			return bad(next, "the line is not a record")
		case err != nil:
			return err
		}
		if err := w.line(text); err != nil {
			return err
		}
	}
}

func (w *walk) line(text []byte) error {
	rec, err := line.Parse(text)
	r, next := w.report, w.report.Last+1
	if err != nil || rec.Seq == 0 {
		return bad(next, "the line is not a record")
	}
	switch {
	case r.Records == 0 && rec.Seq == 1 && rec.Prev != "":
		return bad(1, "it is the first one, and names a hash of another")
	case r.Records == 0:
		r.First, w.start = rec.Seq, rec.Prev
		r.Signed = 0
	case rec.Seq > next:
		return bad(next, "it is missing, %d follows %d", rec.Seq, r.Last)
	case rec.Seq < next:
		return bad(next, "the line has the number %d", rec.Seq)
	case rec.Prev != w.last.String():
		return bad(next, "hash of %d does not match", next-1)
	}
	w.last = line.Sum(text)
	r.Records++
	r.Last = rec.Seq
	if hashes := w.expected.hashes[rec.Seq]; len(hashes) > 0 {
		for _, h := range hashes {
			if h != w.last {
				return bad(rec.Seq, "the hash in its checkpoint does not match")
			}
		}
		r.Signed = rec.Seq
	}
	if n := rec.Seq - max(r.Signed, r.First-1); n > CheckpointEvery {
		return bad(rec.Seq, "no checkpoint covers the %d records before it", n-1)
	}
	if rec.Src != Self {
		return nil
	}
	switch rec.Kind {
	case proto.AuditPruned:
		var p Pruned
		w.pruned = w.pruned || wire.DecodeReply(rec.Data, &p) == nil && p.Last == r.First-1 && p.Hash == w.start
	case proto.AuditStart:
		var s Started
		if wire.DecodeReply(rec.Data, &s) == nil && s.Signed > 0 && !slices.Contains(w.seqs, s.Signed) {
			return bad(s.Signed, "its checkpoint is missing")
		}
	}
	return nil
}

// Self is the src of the records of audit itself.
const Self = "audit"

// Pruned is the data of a record pruned.
type Pruned struct {
	Files []string `json:"files"`
	First int64    `json:"first"` // record that was removed
	Last  int64    `json:"last"`
	Hash  string   `json:"hash"` // of the line of Last
}

// Started is the data of a record start of audit itself.
type Started struct {
	Signed  int64  `json:"signed"` // the record of the last checkpoint; 0: nothing is signed yet
	Version string `json:"version"`
}

// Repaired is the data of a record repaired.
type Repaired struct {
	File    string `json:"file"`
	Dropped int64  `json:"dropped"` // bytes
}
