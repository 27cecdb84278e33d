package durable

import (
	"fmt"
	"testing"

	"zino/pkg/zinotest"
)

var line = []byte(`{"role":"user","content":"Where did I put the recipe for the bread with walnuts?"}`)

// BenchmarkAppend appends to arrays of different lengths; the cost must not depend
// on the length. The floor is one write and one fdatasync.
func BenchmarkAppend(b *testing.B) {
	for _, noSync := range []bool{true, false} {
		for _, n := range []int{100, 100_000} {
			b.Run(fmt.Sprintf("nosync=%v/n=%d", noSync, n), func(b *testing.B) {
				e := filled(b, n)
				e.opt.NoSync = noSync
				b.ReportAllocs()
				for b.Loop() {
					mustAdd(b, e.File, line)
				}
			})
		}
	}
	b.Run("floor", func(b *testing.B) {
		f, err := openRoot(b, b.TempDir()).Create("floor")
		zinotest.Must(b, err)
		defer f.Close()
		for b.Loop() {
			if _, err := f.Write(line); err != nil {
				b.Fatal(err)
			}
			zinotest.Must(b, fdatasync(f, "floor"))
		}
	})
}

// BenchmarkAppendTogether measures 64 concurrent writers, which share syncs.
func BenchmarkAppendTogether(b *testing.B) {
	e := filled(b, 100)
	e.opt.NoSync = false
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			zinotest.Must(b, e.Append([][]byte{line}))
		}
	})
}

// BenchmarkLast reads the last 50 elements.
func BenchmarkLast(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			e := filled(b, n)
			b.ReportAllocs()
			for b.Loop() {
				if list, err := e.Last(50, 0); err != nil || len(list) != 50 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}

func filled(b *testing.B, n int) *env {
	b.Helper()
	list := make([][]byte, n)
	for i := range list {
		list[i] = line
	}
	return newEnv(b, Array, string(arrayOf(list)))
}
