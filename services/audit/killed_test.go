package audit

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"zino/pkg/audit/line"
	"zino/pkg/config"
	"zino/pkg/zinotest"
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
