// Package heap returns memory of Go's heap to the system.
package heap

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// blockSize is the size in bytes of what claim allocates: pages that are free between
// objects in use stay free, and few blocks fill a heap.
const blockSize = 256 << 10

var (
	mu    sync.Mutex
	grown uint64 // bytes by which claim has extended the heap
)

// Release collects garbage and returns all free memory of the heap to the system, in a
// few milliseconds.
//
// debug.FreeOSMemory does not return all of it (Go 1.26; find and scavengeOne in
// runtime/mgcscavenge.go). After each collection the background scavenger searches for
// free pages from the highest one of the collection before downwards, and marks each
// chunk of 4 MB in which it finds none. The first of these chunks can have free pages
// above its beginning; a marked chunk is skipped until a page in it is freed. Release
// frees pages in all chunks: it claims all free memory and drops it. In the second round
// the background scavenger begins at the end of the heap and marks no chunk too early.
func Release() {
	mu.Lock()
	defer mu.Unlock()
	for range 2 {
		claim()
		debug.FreeOSMemory()
	}
}

// claim allocates all free memory of the heap and drops it. It does not touch the memory,
// so that the system need not provide it.
func claim() {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would free the first blocks
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	// Not all free pages lie in runs of a block: the last blocks extend the heap. What
	// they added once is enough for later calls.
	blocks := make([]strings.Builder, (before.HeapIdle-min(grown, before.HeapIdle))/blockSize)
	for i := range blocks {
		blocks[i].Grow(blockSize) // a Builder does not clear its memory
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(blocks)
	grown += after.HeapSys - min(before.HeapSys, after.HeapSys)
}
