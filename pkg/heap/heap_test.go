package heap

import (
	"runtime"
	"runtime/debug"
	"testing"

	"zino/pkg/zinotest"
)

// retained returns the free bytes of the heap that the system has not got back.
func retained() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapIdle - m.HeapReleased
}

func used(size int) []byte {
	b := make([]byte, size)
	for i := 0; i < len(b); i += 4 << 10 {
		b[i] = 1
	}
	return b
}

// TestReleaseReturnsAll: the upper object is freed in the collection after the one that
// frees the lower object, in the same chunk. debug.FreeOSMemory keeps 3 MB of it in 27 of
// 30 rounds.
func TestReleaseReturnsAll(t *testing.T) {
	for round := range 10 {
		lower, upper := used(3<<20), used(7<<20)
		runtime.GC()
		runtime.KeepAlive(lower)
		runtime.GC()
		runtime.KeepAlive(upper)
		runtime.GC()
		zinotest.Eventually(t, "the background scavenger returns the lower object", func() bool { return retained() <= 8<<20 })
		Release()
		if n := retained(); n > 512<<10 {
			t.Errorf("round %d: %d bytes of free memory are not returned", round, n)
		}
	}
}

// TestReleaseDoesNotGrow: the heap's address space grows once.
func TestReleaseDoesNotGrow(t *testing.T) {
	size := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys
	}
	used(20 << 20)
	Release()
	first := size()
	for range 100 {
		Release()
	}
	if last := size(); last > first+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", first, last)
	}
}

func TestReleaseKeepsGCPercent(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(40))
	Release()
	if got := debug.SetGCPercent(40); got != 40 {
		t.Errorf("GC percent %d, want 40", got)
	}
}
