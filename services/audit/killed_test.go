package audit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"zino/pkg/audit/line"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"write": writeForever})
	os.Exit(m.Run())
}

// writeForever appends records and prints the number of each that was acknowledged.
func writeForever(args []string) error {
	cfg := config.Default().Audit
	cfg.DataDir, cfg.Mirror = args[0], config.MirrorNone
	s, err := Open(cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		return err
	}
	s.w.fileMax = 20000
	for {
		seq, err := s.w.append(line.Source{UID: 1, PID: 2, Src: "exc"}, entries(3), false)
		if err != nil {
			return err
		}
		fmt.Println(seq)
	}
}

// TestKilled kills the service while it writes: every acknowledged record is kept, and the
// next process goes on with a whole chain.
func TestKilled(t *testing.T) {
	dir := zinotest.Dir(t)
	data := filepath.Join(dir, "audit")
	for i := range 10 {
		cmd := zinotest.Command(t, "write", data)
		out, err := cmd.StdoutPipe()
		zinotest.Must(t, err)
		zinotest.Must(t, cmd.Start())
		var last int64
		for range 100 + 37*i {
			if _, err := fmt.Fscanln(out, &last); err != nil {
				t.Fatal(err)
			}
		}
		zinotest.Must(t, cmd.Process.Kill())
		cmd.Wait()
		e := start(t, dir)
		e.stop()
		if r := mustVerify(t, data); r.Last < last || r.Records != r.Last {
			t.Fatalf("record %d was acknowledged: %+v", last, r)
		}
	}
}

// BenchmarkCaller measures how long the answer of the service takes at 1,000 records a second.
func BenchmarkCaller(b *testing.B) {
	dir := b.TempDir()
	cfg := config.Default().Audit
	cfg.DataDir, cfg.Mirror, cfg.Socket = filepath.Join(dir, "audit"), config.MirrorNone, filepath.Join(dir, "s")
	s, err := Open(cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	srv := rpc.NewServer("audit", slog.New(slog.NewTextHandler(io.Discard, nil)))
	s.Register(srv)
	l, err := net.Listen("unix", cfg.Socket)
	if err != nil {
		b.Fatal(err)
	}
	go srv.Serve(l)
	defer srv.Shutdown(context.Background())
	client := &rpc.Client{Service: "audit", Path: cfg.Socket}
	defer client.Close()
	var times []time.Duration
	for b.Loop() {
		next := time.Now().Add(time.Millisecond)
		began := time.Now()
		if _, err := rpc.Call(context.Background(), client, proto.AuditRecord, proto.RecordAudit{Records: entries(1), Src: "exc"}); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
		time.Sleep(time.Until(next))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "us-p50")
}
