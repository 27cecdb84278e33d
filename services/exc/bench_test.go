package exc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// BenchmarkExecute measures a whole run of a program that does nothing, at each
// level that this host has.
func BenchmarkExecute(b *testing.B) {
	s := newService(b, nil, map[string]string{"true.json": `{}`})
	root := zinotest.Dir(b)
	for _, level := range proto.Levels {
		if s.levelProblem(b.Context(), level) != nil {
			continue
		}
		b.Run(string(level), func(b *testing.B) {
			for b.Loop() {
				r, err := s.execute(b.Context(), proto.Execute{Executor: "true", Sandbox: level, Root: root})
				if err != nil || r.ExitCode != 0 {
					b.Fatalf("%+v, %v", r, err)
				}
			}
		})
	}
}

// BenchmarkWorkspaceWrite runs a command that does nothing in a root with 20,000
// files in 1,000 directories: all of it is scanned twice.
func BenchmarkWorkspaceWrite(b *testing.B) {
	s := newService(b, nil, nil)
	root := zinotest.Dir(b)
	for i := range 20_000 {
		dir := filepath.Join(root, fmt.Sprint("d", i%50), fmt.Sprint("e", i%1000))
		zinotest.Must(b, os.MkdirAll(dir, 0o700))
		zinotest.Must(b, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), nil, 0o600))
	}
	req := call("bash", root, in{"command": "true"})
	req.Sandbox = proto.LevelWorkspaceWrite
	for b.Loop() {
		if got, err := s.call(b.Context(), req, nil); err != nil || got.Confinement == nil {
			b.Fatalf("%+v, %v", got, err)
		}
	}
}

// BenchmarkFileTools measures calls of read and write over the socket, in a root
// with 200 files, and reports the median. The first call of a batch starts the
// helper.
func BenchmarkFileTools(b *testing.B) {
	s := newService(b, nil, nil)
	c := s.dial(b)
	root := zinotest.Dir(b)
	for i := range 200 {
		zinotest.Write(b, filepath.Join(root, fmt.Sprint("d", i%10), fmt.Sprint("f", i)), "some text\n")
	}
	measure := func(tool string, level proto.Level, kind string, input in, first bool) {
		if s.levelProblem(b.Context(), level) != nil {
			return
		}
		b.Run(tool+"/"+string(level)+kind, func(b *testing.B) {
			req := call(tool, root, input)
			req.Sandbox = level
			var took []time.Duration
			for b.Loop() {
				if first {
					s.closeHelpers()
				}
				start := time.Now()
				if got := ask(b, c, req); !got.OK {
					b.Fatalf("%+v", got)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
		})
	}
	for _, level := range []proto.Level{proto.LevelOff, proto.LevelReadOnly, proto.LevelWorkspaceWrite} {
		measure("read", level, "", in{"path": "d1/f1"}, false)
		if level != proto.LevelOff {
			measure("read", level, "/first", in{"path": "d1/f1"}, true)
		}
		if level != proto.LevelReadOnly {
			measure("write", level, "", in{"path": "d2/f2", "content": "other text\n"}, false)
		}
	}
}
