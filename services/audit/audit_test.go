package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/audit/chain"
	"zino/pkg/audit/line"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestRecord(t *testing.T) {
	e := start(t, "")
	r, err := rpc.Call(t.Context(), e.client, proto.AuditRecord, proto.RecordAudit{Records: entries(2), Src: "exc", Sync: true})
	zinotest.Must(t, err)
	if r.Seq != 3 { // behind the start
		t.Errorf("the last record is %d", r.Seq)
	}
	got, err := rpc.Call(t.Context(), e.client, proto.AuditRead, proto.ReadAudit{Session: "s"})
	zinotest.Must(t, err)
	if len(got.Lines) != 2 || got.Next != 0 {
		t.Fatalf("read: %+v", got)
	}
	rec, err := line.Parse([]byte(got.Lines[1]))
	zinotest.Must(t, err)
	if rec.Seq != 3 || rec.UID != os.Geteuid() || rec.PID != os.Getpid() || rec.Src != "exc" || rec.Kind != "call" || rec.Turn != "t-1" || rec.Call != "c1" ||
		time.Since(rec.Time()) > time.Minute || rec.Prev != line.Sum([]byte(got.Lines[0])).String() {
		t.Errorf("the record is %+v", rec)
	}
	info, err := os.Stat(filepath.Join(e.cfg.DataDir, chain.KeyFile))
	zinotest.Must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v", info.Mode())
	}
	e.stop()
	if got := mustVerify(t, e.cfg.DataDir).String(); got != "3 records, 1 checkpoints, verified up to 3" {
		t.Error(got)
	}
}

func TestRecordRefuses(t *testing.T) {
	e := start(t, "")
	for _, tt := range []struct {
		name string
		req  proto.RecordAudit
		code proto.Code
	}{
		{"nothing", proto.RecordAudit{Records: []proto.AuditEntry{}, Src: "exc"}, proto.CodeInvalid},
		{"no kind", proto.RecordAudit{Records: []proto.AuditEntry{{}}, Src: "exc"}, proto.CodeInvalid},
		{"no src", proto.RecordAudit{Records: entries(1)}, proto.CodeInvalid},
		{"the name of audit itself", proto.RecordAudit{Records: entries(1), Src: "audit"}, proto.CodeInvalid},
		{"data that is no object", proto.RecordAudit{Records: []proto.AuditEntry{{Kind: "call", Data: proto.Raw(`[1]`)}}, Src: "exc"}, proto.CodeInvalid},
		{"64 KiB", proto.RecordAudit{Records: []proto.AuditEntry{{Kind: "call", Data: proto.Raw(`{"a":"` + strings.Repeat("x", line.MaxLine) + `"}`)}}, Src: "exc"}, proto.CodeTooLarge},
		{"too many", proto.RecordAudit{Records: entries(batchMax + 1), Src: "exc"}, proto.CodeTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rpc.Call(t.Context(), e.client, proto.AuditRecord, tt.req)
			if codeOf(err) != tt.code {
				t.Errorf("got %v", err)
			}
		})
	}
	e.stop()
	if r := mustVerify(t, e.cfg.DataDir); r.Records != 1 {
		t.Errorf("%d records were stored", r.Records)
	}
}

func TestCheckpointEvery1000Records(t *testing.T) {
	e := start(t, "")
	e.add(t, 41)
	for range 10 {
		e.add(t, 100)
	}
	if got := mustVerify(t, e.cfg.DataDir).String(); got != "1042 records, 1 checkpoints, verified up to 942; last 100 not yet signed" {
		t.Error(got)
	}
}

// TestVerifyFindsEachChange alters each record of a signed log of several files.
func TestVerifyFindsEachChange(t *testing.T) {
	e := start(t, "")
	e.w.fileMax = 2000
	for range 25 {
		e.add(t, 1)
	}
	e.stop()
	whole := e.cfg.DataDir
	if got := mustVerify(t, whole).String(); got != "26 records, 1 checkpoints, verified up to 26" {
		t.Fatal(got)
	}
	paths, err := chain.Files(whole)
	zinotest.Must(t, err)
	if len(paths) < 3 {
		t.Fatalf("there are %d files", len(paths))
	}
	seq := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		zinotest.Must(t, err)
		lines := bytes.SplitAfter(data, []byte("\n"))
		lines = lines[:len(lines)-1]
		for i, line := range lines {
			seq++
			edit := bytes.Clone(line)
			edit[bytes.Index(edit, []byte(`"ts":"20`))+len(`"ts":"2`)]++
			bit := bytes.Clone(line)
			bit[len(bit)/2] ^= 1
			for name, changed := range map[string][][]byte{
				"edit":     slices.Concat(lines[:i], [][]byte{edit}, lines[i+1:]),
				"flip":     slices.Concat(lines[:i], [][]byte{bit}, lines[i+1:]),
				"delete":   slices.Concat(lines[:i], lines[i+1:]),
				"insert":   slices.Concat(lines[:i], [][]byte{line}, lines[i:]),
				"truncate": slices.Concat(lines[:i], [][]byte{line[:len(line)/2]}),
				"swap":     slices.Concat(lines[:i], lines[min(i+1, len(lines)-1):min(i+2, len(lines))], [][]byte{line}, lines[min(i+2, len(lines)):]),
			} {
				dir := copyDir(t, whole)
				zinotest.Must(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), bytes.Join(changed, nil), 0o600))
				_, err := verify(dir)
				p, ok := errors.AsType[*chain.Problem](err)
				// A change of a record is seen in it or in the next one, a swap in the one behind.
				if !ok || p.Seq < int64(seq) || p.Seq > int64(seq)+2 {
					t.Errorf("%s of record %d: %v", name, seq, err)
				}
			}
		}
		dir := copyDir(t, whole)
		zinotest.Must(t, os.Remove(filepath.Join(dir, filepath.Base(path))))
		if problem(t, dir) == "" {
			t.Errorf("the removal of %s was not found", path)
		}
	}
	dir := copyDir(t, whole)
	zinotest.Must(t, os.Remove(filepath.Join(dir, chain.CheckpointsFile)))
	if got := problem(t, dir); got != "record 1: the file checkpoints is missing" {
		t.Errorf("got %q", got)
	}
	notes, err := os.ReadFile(filepath.Join(whole, chain.CheckpointsFile))
	zinotest.Must(t, err)
	for i := range notes[:bytes.Index(notes, []byte("\n\n"))] {
		flipped := bytes.Clone(notes)
		flipped[i] ^= 1
		zinotest.Must(t, os.WriteFile(filepath.Join(dir, chain.CheckpointsFile), flipped, 0o600))
		r, err := verify(dir)
		if err == nil && r.Signed == 26 {
			t.Errorf("byte %d of the checkpoint: not found", i)
		}
	}
}

func TestVerifyNamesTheRecord(t *testing.T) {
	e := start(t, "")
	e.add(t, 5)
	e.stop()
	path := filepath.Join(e.cfg.DataDir, line.FileName(1))
	data, err := os.ReadFile(path)
	zinotest.Must(t, err)
	zinotest.Must(t, os.WriteFile(path, bytes.Replace(data, []byte(`"call":"c1"`), []byte(`"call":"c9"`), 1), 0o600))
	if got := problem(t, e.cfg.DataDir); got != "record 4: hash of 3 does not match" {
		t.Error(got)
	}
}

func TestVerifyFindsRemovedCheckpoints(t *testing.T) {
	dir := zinotest.Dir(t)
	e := start(t, dir)
	e.add(t, 1)
	e.stop()
	e = start(t, dir)
	zinotest.Must(t, e.w.marks.Truncate(0))
	if got := problem(t, e.cfg.DataDir); got != "record 2: its checkpoint is missing" {
		t.Error(got)
	}
}

func TestVerifyWithAnotherKey(t *testing.T) {
	e := start(t, "")
	e.stop()
	_, other, err := chain.NewKey("host")
	zinotest.Must(t, err)
	if _, err := chain.Verify(e.cfg.DataDir, other, nil); err == nil || !strings.Contains(err.Error(), "checkpoint 1: the signature does not match the key") {
		t.Errorf("got %v", err)
	}
}

// TestVerifyMirror checks that a log that was written anew differs from its mirror.
func TestVerifyMirror(t *testing.T) {
	dir := zinotest.Dir(t)
	e := start(t, dir)
	e.add(t, 5)
	e.stop()
	mirror, err := os.ReadFile(filepath.Join(e.cfg.DataDir, chain.CheckpointsFile))
	zinotest.Must(t, err)
	paths, err := chain.Files(e.cfg.DataDir)
	zinotest.Must(t, err)
	for _, path := range append(paths, filepath.Join(e.cfg.DataDir, chain.CheckpointsFile)) {
		zinotest.Must(t, os.Remove(path))
	}
	e = start(t, dir)
	e.add(t, 9)
	e.stop()
	key, err := os.ReadFile(filepath.Join(e.cfg.DataDir, chain.VerifierFile))
	zinotest.Must(t, err)
	if _, err := chain.Verify(e.cfg.DataDir, strings.TrimSpace(string(key)), mirror); err == nil || err.Error() != "record 6: the hash in its checkpoint does not match" {
		t.Errorf("got %v", err)
	}
}

// TestTornTail cuts the log at each byte of its last record.
func TestTornTail(t *testing.T) {
	e := start(t, "")
	e.add(t, 2)
	zinotest.Must(t, e.w.flush())
	whole := copyDir(t, e.cfg.DataDir)
	path := filepath.Join(whole, line.FileName(1))
	data, err := os.ReadFile(path)
	zinotest.Must(t, err)
	last := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
	for cut := last; cut <= len(data); cut++ {
		dir := zinotest.Dir(t)
		zinotest.Must(t, os.CopyFS(filepath.Join(dir, "audit"), os.DirFS(whole)))
		zinotest.Must(t, os.WriteFile(filepath.Join(dir, "audit", line.FileName(1)), data[:cut], 0o600))
		again := start(t, dir)
		again.add(t, 1)
		again.stop()
		r := mustVerify(t, again.cfg.DataDir)
		text, err := os.ReadFile(filepath.Join(dir, "audit", line.FileName(1)))
		zinotest.Must(t, err)
		repaired := `"kind":"repaired","data":{"file":"audit-000001.jsonl","dropped":` + strconv.Itoa(cut-last) + "}"
		want := int64(4) // of the first two, of the new start and of the new one
		switch {
		case cut == len(data):
			want++
		case cut > last:
			want++
			if !strings.Contains(string(text), repaired) {
				t.Errorf("cut at %d: no record %s", cut, repaired)
			}
		}
		if r.Records != want {
			t.Errorf("cut at %d: %d records, want %d", cut, r.Records, want)
		}
	}
}

func TestRotation(t *testing.T) {
	dir := zinotest.Dir(t)
	e := start(t, dir)
	e.w.fileMax = 1000
	e.add(t, 1)
	for range 20 {
		e.add(t, 1)
	}
	paths, err := chain.Files(e.cfg.DataDir)
	zinotest.Must(t, err)
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.Size() > 1000 || info.Size() == 0 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	got, err := rpc.Call(t.Context(), e.client, proto.AuditRead, proto.ReadAudit{From: 15})
	zinotest.Must(t, err)
	if len(got.Lines) != 8 {
		t.Errorf("%d records from 15 on", len(got.Lines))
	}
	e.stop()
	if r := mustVerify(t, e.cfg.DataDir); r.Records != 22 {
		t.Errorf("%+v", r)
	}
	// A file that was just begun when the process died.
	zinotest.Must(t, os.WriteFile(filepath.Join(e.cfg.DataDir, line.FileName(len(paths)+1)), []byte(`{"seq":`), 0o600))
	e = start(t, dir)
	e.add(t, 1)
	e.stop()
	if r := mustVerify(t, e.cfg.DataDir); r.Records != 25 {
		t.Errorf("%+v", r)
	}
}

func TestPrune(t *testing.T) {
	dir := zinotest.Dir(t)
	e := start(t, dir)
	e.w.fileMax = 1000
	e.w.now = func() time.Time { return time.Now().AddDate(0, 0, -91) }
	for range 10 {
		e.add(t, 1)
	}
	e.w.mu.Lock()
	e.w.now = time.Now
	e.w.mu.Unlock()
	for range 5 {
		e.add(t, 1)
	}
	before, err := chain.Files(e.cfg.DataDir)
	zinotest.Must(t, err)
	e.stop()
	e = start(t, dir) // removes them
	zinotest.Eventually(t, "old files are removed", func() bool {
		paths, err := chain.Files(e.cfg.DataDir)
		return err == nil && len(paths) < len(before)
	})
	e.stop()
	r := mustVerify(t, e.cfg.DataDir)
	if r.First < 5 || r.Records != r.Last-r.First+1 {
		t.Errorf("%+v", r)
	}
	// The record that says so is a part of the chain.
	paths, err := chain.Files(e.cfg.DataDir)
	zinotest.Must(t, err)
	zinotest.Must(t, os.Remove(paths[0]))
	if got := problem(t, e.cfg.DataDir); !strings.HasSuffix(got, "the records before it are missing") {
		t.Errorf("got %q", got)
	}
}

func TestDiskFull(t *testing.T) {
	e := start(t, "")
	e.add(t, 1)
	real := e.w.write
	e.w.write = func(f *os.File, b []byte) (int, error) { // a part of it fits
		n, _ := real(f, b[:len(b)/2])
		return n, syscall.ENOSPC
	}
	_, err := rpc.Call(t.Context(), e.client, proto.AuditRecord, proto.RecordAudit{Records: entries(3), Src: "exc"})
	if codeOf(err) != proto.CodeUnavailable || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %v", err)
	}
	stats, err := rpc.Call(t.Context(), e.client, proto.GetStats, proto.StatsRequest{})
	zinotest.Must(t, err)
	if !slices.ContainsFunc(stats.Problems, func(p string) bool { return strings.Contains(p, "no space left on device") }) {
		t.Errorf("problems: %q", stats.Problems)
	}
	e.w.write = real
	if seq := e.add(t, 1); seq != 3 {
		t.Errorf("the next record is %d", seq)
	}
	e.stop()
	if r := mustVerify(t, e.cfg.DataDir); r.Records != 3 {
		t.Errorf("%+v", r)
	}
}

func TestOpenRefusesASecondProcess(t *testing.T) {
	e := start(t, "")
	if _, err := openWriter(e.cfg.DataDir, "host"); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("got %v", err)
	}
}

func TestReadFilters(t *testing.T) {
	e := start(t, "")
	list := entries(2)
	list[0].Session, list[1].Kind, list[1].Turn = "other", proto.AuditTurn, "t-2"
	_, err := rpc.Call(t.Context(), e.client, proto.AuditRecord, proto.RecordAudit{Records: list, Src: "exc"})
	zinotest.Must(t, err)
	for _, tt := range []struct {
		req  proto.ReadAudit
		want int
	}{
		{proto.ReadAudit{}, 3},
		{proto.ReadAudit{Session: "other"}, 1},
		{proto.ReadAudit{Kind: "turn"}, 1},
		{proto.ReadAudit{Turn: "t-1"}, 1},
		{proto.ReadAudit{From: 3}, 1},
		{proto.ReadAudit{Since: time.Now().Add(time.Hour).Format(time.RFC3339)}, 0},
		{proto.ReadAudit{Since: time.Now().Add(-time.Hour).Format(time.RFC3339)}, 3},
	} {
		got, err := rpc.Call(t.Context(), e.client, proto.AuditRead, tt.req)
		zinotest.Must(t, err)
		if len(got.Lines) != tt.want {
			text, _ := json.Marshal(tt.req)
			t.Errorf("%s: %d records", text, len(got.Lines))
		}
	}
}
