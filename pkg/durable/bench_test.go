package durable

import (
	"fmt"
	"path/filepath"
	"testing"
)

var line = []byte(`{"role":"user","content":"Where did I put the recipe for the bread with walnuts?"}`)

// BenchmarkAppend appends to arrays of different lengths: the cost must not
// depend on that. The floor is one write and one fdatasync.
func BenchmarkAppend(b *testing.B) {
	for _, noSync := range []bool{true, false} {
		for _, n := range []int{100, 100_000} {
			b.Run(fmt.Sprintf("nosync=%v/n=%d", noSync, n), func(b *testing.B) {
				a := filled(b, n, Options{NoSync: noSync})
				b.ReportAllocs()
				for b.Loop() {
					mustAppend(b, a, line)
				}
			})
		}
	}
	b.Run("floor", func(b *testing.B) {
		f, err := openRoot(b, b.TempDir()).Create("floor")
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for b.Loop() {
			if _, err := f.Write(line); err != nil {
				b.Fatal(err)
			}
			if err := fdatasync(f); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAppendTogether has 64 writers share their syncs.
func BenchmarkAppendTogether(b *testing.B) {
	a := filled(b, 100, Options{})
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mustAppend(b, a, line)
		}
	})
}

// BenchmarkLast reads the last 50 elements.
func BenchmarkLast(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			a := filled(b, n, Options{})
			b.ReportAllocs()
			for b.Loop() {
				if list, err := a.Last(50, 0); err != nil || len(list) != 50 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}

func filled(b *testing.B, n int, opt Options) *Array {
	b.Helper()
	dir := b.TempDir()
	list := make([][]byte, n)
	for i := range list {
		list[i] = line
	}
	writeFile(b, filepath.Join(dir, name), string(layOut(list)))
	a := NewArray(openRoot(b, dir), name, opt)
	b.Cleanup(a.Close)
	return a
}
