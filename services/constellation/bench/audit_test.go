package bench_test

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"zino/pkg/audit"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	auditservice "zino/services/audit"
)

// benchAudit sends 1,000 records a second to the audit service, and as many bytes to a
// goroutine that hashes and writes them.
func benchAudit(b *bench) ([]line, error) {
	dir, err := os.MkdirTemp("", "zino-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cfg := config.Default()
	cfg.Audit.DataDir, cfg.Audit.Mirror, cfg.Audit.Socket = filepath.Join(dir, "audit"), config.MirrorNone, filepath.Join(dir, "s")
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	service, err := auditservice.Open(cfg.Audit, log)
	if err != nil {
		return nil, err
	}
	defer service.Close()
	server := rpc.NewServer("audit", log)
	service.Register(server)
	l, err := net.Listen("unix", cfg.Audit.Socket)
	if err != nil {
		return nil, err
	}
	go server.Serve(l)
	defer server.Shutdown(context.Background())

	n := b.scale(2000)
	event := audit.Event{Session: "5b0c6f1e-0d4e-4b8e-9d0a-2f3f5a1c7e11", Turn: "t-k3v9q2m7xd4a", Call: "c1", Data: audit.Call{Tool: "bash", Input: `{"command":"make"}`, Digest: "sha256:00"}}
	records := audit.Open(cfg, "exc", log)
	caller := everyMillisecond(n, func() error { records.Record(proto.AuditCall, event); return nil })
	if err := records.Close(); err != nil {
		return nil, err
	}
	client := &rpc.Client{Service: "audit", Path: cfg.Audit.Socket}
	defer client.Close()
	entry := proto.AuditEntry{Kind: proto.AuditCall, Session: event.Session, Turn: event.Turn, Call: event.Call, Data: proto.Raw(`{"tool":"bash","input":"{\"command\":\"make\"}","digest":"sha256:00"}`)}
	answer := everyMillisecond(n, func() error {
		_, err := rpc.Call(context.Background(), client, proto.AuditRecord, proto.RecordAudit{Records: []proto.AuditEntry{entry}, Src: "exc"})
		return err
	})
	floors, err := auditFloor(dir, n)
	if err != nil {
		return nil, err
	}
	for _, t := range []timing{caller, answer} {
		if t.err != nil {
			return nil, t.err
		}
	}
	return []line{
		{name: "audit: a record for its caller, 1,000 a second", measured: caller.p50, goals: []goal{atMost(50e3)}, note: "wall time, p50; the caller does not wait for the service"},
		{name: "audit: an answer of the service", measured: answer.p50, floors: floors, ratio: answer.p50 / median(floors), note: "wall time, p50; floor: a raw socket, SHA-256 and a write"},
	}, nil
}

// auditFloor is the time until a record of 400 bytes is hashed, written and acknowledged.
func auditFloor(dir string, n int) ([]float64, error) {
	file, err := os.Create(filepath.Join(dir, "floor"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l, err := net.Listen("unix", filepath.Join(dir, "f"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for record := make([]byte, 400); ; {
			if _, err := io.ReadFull(conn, record); err != nil {
				return
			}
			sum := sha256.Sum256(record)
			if _, err := file.Write(record); err != nil {
				return
			}
			if _, err := conn.Write(sum[:8]); err != nil {
				return
			}
		}
	}()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	record, reply := make([]byte, 400), make([]byte, 8)
	t := everyMillisecond(n, func() error {
		if _, err := conn.Write(record); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, reply)
		return err
	})
	return t.list, t.err
}

type timing struct {
	list []float64 // nanoseconds
	p50  float64
	err  error
}

// everyMillisecond calls f n times, 1,000 times a second.
func everyMillisecond(n int, f func() error) timing {
	var list []float64
	for next := time.Now(); len(list) < max(n, 3); next = next.Add(time.Millisecond) {
		time.Sleep(time.Until(next))
		began := time.Now()
		if err := f(); err != nil {
			return timing{err: err}
		}
		list = append(list, float64(time.Since(began)))
	}
	return timing{list: list, p50: median(list)}
}
