package mem

import (
	"log/slog"
	"os"
	"testing"

	"zino/pkg/zinotest"
	"zino/services/mem/store"
	"zino/services/mem/store/storetest"
)

// openStore opens the memories of a directory as another process would.
func openStore(t testing.TB, dir string) *memories {
	t.Helper()
	root, err := os.OpenRoot(dir)
	zinotest.Must(t, err)
	m := openMemories(root, quiet(), true)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		root.Close()
	})
	return m
}

// quiet returns problems that are not logged.
func quiet() *problems { return newProblems(slog.New(slog.DiscardHandler)) }

// TestStore runs the tests for all stores on memories, without snapshots and with a
// snapshot after every change.
func TestStore(t *testing.T) {
	if n := storetest.Checks(); n < 40 {
		t.Errorf("only %d checks", n)
	}
	for name, least := range map[string]int{"plain": snapshotLeast, "with_snapshots": 1} {
		t.Run(name, func(t *testing.T) {
			dirs := map[*testing.T]string{}
			storetest.Run(t, func(t *testing.T) store.Store {
				if dirs[t] == "" {
					dirs[t] = zinotest.Dir(t)
				}
				return openWith(t, dirs[t], least)
			})
		})
	}
}

// openWith is openStore with a minimum number of elements for snapshots.
func openWith(t testing.TB, dir string, least int) *memories {
	t.Helper()
	m := openStore(t, dir)
	m.turn.Lock()
	defer m.turn.Unlock()
	m.least = least
	return m
}
