package daemon

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestLotWakesInOrder checks that turns wake up at their times, that a turn that was
// taken or has no time does not, and that no more than the limit run at once.
func TestLotWakesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var order []string
		running, most := 0, 0
		l := newLot(2, func(p parked) {
			mu.Lock()
			order = append(order, fmt.Sprintf("%s@%v", p.session, time.Since(start).Round(time.Second)))
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(10 * time.Second)
			mu.Lock()
			running--
			mu.Unlock()
		})
		at := func(d time.Duration) int64 { return start.Add(d).Unix() }
		for session, until := range map[string]int64{
			"late": at(time.Hour), "soon": at(time.Minute), "past": at(-time.Minute),
			"taken": at(2 * time.Second), "never": 0, "moved": at(3 * time.Second),
		} {
			l.put(parked{session: session, until: until})
		}
		l.put(parked{session: "moved", until: at(2 * time.Hour)})
		if p, ok := l.take("taken"); !ok || p.session != "taken" {
			t.Errorf("take = %+v, %v", p, ok)
		}
		if _, ok := l.take("taken"); ok {
			t.Error("a turn was taken twice")
		}
		time.Sleep(3 * time.Hour)
		for i := range 4 {
			l.put(parked{session: fmt.Sprint("burst", i), until: 1})
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		zinotest.Equal(t, "woken", fmt.Sprint(order[:4]), "[past@0s soon@1m0s late@1h0m0s moved@2h0m0s]")
		zinotest.Equal(t, "burst", len(order), 8)
		zinotest.Equal(t, "at once", most, 2)
		zinotest.Equal(t, "left", fmt.Sprint(l.list()[0].session, l.size()), "never1")
		l.close()
		l.put(parked{session: "closed", until: 1})
		zinotest.Equal(t, "after close", l.size(), 1)
	})
}

// TestLotIsSmall checks the memory of 10,000 parked turns, with the ids of real ones,
// and that they have no goroutine.
func TestLotIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(parked{}); size > 256 {
		t.Errorf("a record has %d bytes", size)
	}
	before, goroutines := heapBytes(), runtime.NumGoroutine()
	l := newLot(1, func(parked) {})
	until := time.Now().Add(time.Hour).Unix()
	for range parkedMax {
		l.put(parked{session: proto.NewSessionID(), turn: proto.NewTurnID(), reason: proto.ParkedLimit, until: until + rand.Int64N(1000)})
	}
	if used := (heapBytes() - before) / parkedMax; used > 512 {
		t.Errorf("a parked turn takes %d bytes", used)
	}
	zinotest.Equal(t, "goroutines", runtime.NumGoroutine(), goroutines)
	times := []int64{}
	for len(l.byTime) > 0 {
		times = append(times, l.byTime[0].until)
		l.take(l.byTime[0].session)
	}
	if len(times) != parkedMax || !slices.IsSorted(times) || l.size() != 0 {
		t.Errorf("%d turns, sorted: %v, left: %d", len(times), slices.IsSorted(times), l.size())
	}
	l.close()
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestLotHasWakingSession checks that a session is in the lot until its turns are in
// memory: a follower that comes meanwhile waits for them.
func TestLotHasWakingSession(t *testing.T) {
	begun, load, end := make(chan bool), make(chan bool), make(chan bool)
	var l *lot
	l = newLot(1, func(p parked) {
		begun <- true
		<-load
		l.loaded(p.session)
		begun <- true
		<-end
	})
	l.put(parked{session: "s", turn: "t", until: 1})
	zinotest.Receive(t, "the call of wake", begun)
	zinotest.Equal(t, "while it is loaded", l.has("s"), true)
	close(load)
	zinotest.Receive(t, "the end of loading", begun)
	zinotest.Equal(t, "afterwards", l.has("s"), false)
	close(end)
	l.close()
}
