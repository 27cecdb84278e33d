package embed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/zinotest"
)

const model = "ollama/nomic-embed-text"

// newCache returns a cache in a new directory.
func newCache(t testing.TB) (*Cache, string) {
	t.Helper()
	dir := t.TempDir()
	return openCache(t, dir), dir
}

func openCache(t testing.TB, dir string) *Cache {
	t.Helper()
	root, err := os.OpenRoot(dir)
	zinotest.Must(t, err)
	c := New(root, "embeddings", model)
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), root.Close()); err != nil {
			t.Error(err)
		}
	})
	zinotest.Must(t, c.Refresh())
	return c
}

// vectorOf is a vector of the length 1 that belongs to a text.
func vectorOf(text string, size int) []float32 {
	key := KeyOf(text)
	r := rand.New(rand.NewPCG(uint64(key[0])<<8+uint64(key[1]), uint64(key[2])))
	v, sum := make([]float32, size), 0.0
	for i := range v {
		v[i] = float32(r.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func add(t testing.TB, c *Cache, size int, texts ...string) {
	t.Helper()
	zinotest.Must(t, addTo(t.Context(), c, size, texts...))
}

func addTo(ctx context.Context, c *Cache, size int, texts ...string) error {
	var keys []Key
	var vectors [][]float32
	for _, text := range texts {
		keys, vectors = append(keys, KeyOf(text)), append(vectors, vectorOf(text, size))
	}
	return c.Add(ctx, keys, vectors)
}

// holds checks that a cache has the right vectors of some texts, and of no others.
func holds(t testing.TB, c *Cache, size int, all []string, want ...string) {
	t.Helper()
	zinotest.Must(t, c.Refresh())
	for _, text := range all {
		has := slices.Contains(want, text)
		if c.Has(KeyOf(text)) != has {
			t.Errorf("%s: Has is %v", text, !has)
		}
		if c.Dimensions() == 0 {
			continue
		}
		zinotest.Must(t, c.Compare(vectorOf(text, size), func(of func(Key) (float32, bool)) error {
			cosine, ok := of(KeyOf(text))
			if ok != has || ok && math.Abs(float64(cosine)-1) > 1e-5 {
				t.Errorf("%s: cosine %v, %v; want %v", text, cosine, ok, has)
			}
			return nil
		}))
	}
}

func TestCacheKeepsVectors(t *testing.T) {
	c, dir := newCache(t)
	if names := zinotest.Names(t, dir); names != "" {
		t.Errorf("a cache without vectors made %s", names)
	}
	all := []string{"a", "b", "c", "d"}
	holds(t, c, 7, all)
	add(t, c, 7, "a", "b")
	add(t, c, 7, "b", "c")
	holds(t, c, 7, all, "a", "b", "c")
	holds(t, openCache(t, dir), 7, all, "a", "b", "c")
	fi, err := os.Stat(filepath.Join(dir, c.Name()))
	zinotest.Must(t, err)
	if fi.Size() != int64(headerSize(model)+3*recordSize(7)) || fi.Mode() != 0o600 {
		t.Errorf("the file has %d bytes and the mode %v", fi.Size(), fi.Mode())
	}
	zinotest.Equal(t, "the name", c.Name(), "embeddings/d42ec3fd93b861b7.vec")
	zinotest.Equal(t, "files", zinotest.Names(t, filepath.Join(dir, "embeddings")), FileName(model))
}

// TestCacheRefusesOtherSizes: nothing of a vector with another size is written.
func TestCacheRefusesOtherSizes(t *testing.T) {
	c, dir := newCache(t)
	add(t, c, 4, "a")
	before := read(t, dir)
	err := addTo(t.Context(), c, 5, "b")
	if e, ok := errors.AsType[*DimensionError](err); !ok || e.Have != 4 || e.Got != 5 {
		t.Errorf("got %v", err)
	}
	if !bytes.Equal(read(t, dir), before) {
		t.Error("the file changed")
	}
	if err := c.Compare(vectorOf("x", 5), nil); err == nil {
		t.Error("a query of another size is compared")
	}
	holds(t, c, 4, []string{"a", "b"}, "a")
}

func path(dir string) string { return filepath.Join(dir, "embeddings", FileName(model)) }

func read(t testing.TB, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(path(dir))
	zinotest.Must(t, err)
	return data
}

// TestCacheCut reads every prefix of a file: whole records count, and the cache goes on
// from there.
func TestCacheCut(t *testing.T) {
	c, dir := newCache(t)
	all := []string{"a", "b", "c"}
	add(t, c, 3, all...)
	data := read(t, dir)
	for n := range len(data) + 1 {
		dir := t.TempDir()
		zinotest.Must(t, os.Mkdir(filepath.Join(dir, "embeddings"), 0o700))
		zinotest.Must(t, os.WriteFile(path(dir), data[:n], 0o600))
		c := openCache(t, dir)
		whole := max(0, n-headerSize(model)) / recordSize(3)
		holds(t, c, 3, all, all[:whole]...)
		add(t, c, 3, "d")
		holds(t, c, 3, append(all, "d"), append(slices.Clone(all[:whole]), "d")...)
		holds(t, openCache(t, dir), 3, append(all, "d"), append(slices.Clone(all[:whole]), "d")...)
		if extra := (len(read(t, dir)) - headerSize(model)) % recordSize(3); extra != 0 {
			t.Errorf("cut at %d: %d bytes are left of a record", n, extra)
		}
	}
}

// TestCacheDamaged changes each byte of a file: at most one vector is lost, or all by
// the header, and no wrong one is served.
func TestCacheDamaged(t *testing.T) {
	c, dir := newCache(t)
	all := []string{"a", "b", "c"}
	add(t, c, 3, all...)
	data := read(t, dir)
	for i := range data {
		zinotest.Must(t, os.WriteFile(path(dir), data, 0o600)) // the open file
		bad := slices.Clone(data)
		bad[i] ^= 1 << (i % 8)
		dir := t.TempDir()
		zinotest.Must(t, os.Mkdir(filepath.Join(dir, "embeddings"), 0o700))
		zinotest.Must(t, os.WriteFile(path(dir), bad, 0o600))
		var want []string
		for n, text := range all {
			if i >= headerSize(model) && n != (i-headerSize(model))/recordSize(3) {
				want = append(want, text)
			}
		}
		c := openCache(t, dir)
		holds(t, c, 3, all, want...)
		add(t, c, 3, all...)
		holds(t, c, 3, all, all...)
	}
}

// TestCachePrunes: a file of which more than half is dead is rewritten, and else not.
func TestCachePrunes(t *testing.T) {
	c, dir := newCache(t)
	other := openCache(t, dir)
	all := []string{"a", "b", "c", "d"}
	add(t, c, 3, all...)
	prune := func(live ...string) {
		t.Helper()
		keys := map[Key]bool{}
		for _, text := range live {
			keys[KeyOf(text)] = true
		}
		zinotest.Must(t, c.Prune(t.Context(), false, func() (map[Key]bool, error) { return keys, nil }))
	}
	before := read(t, dir)
	prune("a", "b")
	if !bytes.Equal(read(t, dir), before) {
		t.Error("a file of which half is dead was rewritten")
	}
	holds(t, other, 3, all, all...)
	prune("c", "none")
	zinotest.Equal(t, "bytes", len(read(t, dir)), headerSize(model)+recordSize(3))
	for _, c := range []*Cache{c, other, openCache(t, dir)} {
		holds(t, c, 3, all, "c")
	}
	prune()
	zinotest.Equal(t, "bytes", len(read(t, dir)), headerSize(model))
	holds(t, other, 3, all)
	zinotest.Must(t, os.Remove(path(dir)))
	holds(t, other, 3, all)
	prune()
	add(t, other, 5, "a")
	holds(t, c, 5, all, "a")
}

// TestCacheIsShared has several users of one file add and prune at once: each text that
// was added stays, and none has a wrong vector.
func TestCacheIsShared(t *testing.T) {
	_, dir := newCache(t)
	var mu sync.Mutex
	live := map[Key]bool{}
	var all []string
	var group sync.WaitGroup
	for user := range 4 {
		c := openCache(t, dir)
		group.Go(func() {
			for i := range 20 {
				text := fmt.Sprintf("text %d of %d", i, user)
				mu.Lock()
				live[KeyOf(text)] = true // before its vector, as memories are
				all = append(all, text)
				mu.Unlock()
				if err := addTo(t.Context(), c, 6, text); err != nil {
					t.Error(err)
				}
				if err := addTo(t.Context(), c, 6, text+" that is deleted", text+" too", text+" three"); err != nil {
					t.Error(err)
				}
				if err := c.Prune(t.Context(), false, func() (map[Key]bool, error) {
					mu.Lock()
					defer mu.Unlock()
					copied := map[Key]bool{}
					for key := range live {
						copied[key] = true
					}
					return copied, nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	holds(t, openCache(t, dir), 6, all, all...)
}

func TestFuse(t *testing.T) {
	for _, test := range []struct {
		a, b []int
		want string
	}{
		{nil, nil, ""},
		{[]int{7}, []int{7}, "7:1.0000"},
		{[]int{7}, nil, "7:0.5000"},
		{[]int{1, 2, 3}, []int{2, 3, 4}, "2:0.9919 3:0.9761 1:0.5000 4:0.4841"},
		{[]int{1, 2}, []int{2, 1}, "2:0.9919 1:0.9919"},
	} {
		var got []string
		for _, f := range Fuse(test.a, test.b) {
			got = append(got, fmt.Sprintf("%d:%.4f", f.ID, f.Score))
		}
		zinotest.Equal(t, fmt.Sprint(test.a, test.b), strings.Join(got, " "), test.want)
	}
	var long []int
	for i := range 150 {
		long = append(long, i)
	}
	if list := Fuse(long, nil); len(list) != Depth || list[Depth-1].ID != Depth-1 {
		t.Errorf("%d ids, the last is %v", len(list), list[len(list)-1])
	}
}

// FuzzCache reads any bytes as a cache: only records with a valid checksum count, a
// vector can be added, and reading again gives the same.
func FuzzCache(f *testing.F) {
	good := appendRecord(appendRecord(header(model, 2), KeyOf("a"), vectorOf("a", 2)), KeyOf("b"), vectorOf("b", 2))
	for _, seed := range [][]byte{nil, good, good[:len(good)-3], good[:headerSize(model)], []byte(magic), append(slices.Clone(good), 0, 1, 2), header("other/model", 2), header(model, 0), header(model, 1<<20)} {
		f.Add(seed)
	}
	dir := f.TempDir()
	zinotest.Must(f, os.Mkdir(filepath.Join(dir, "embeddings"), 0o700))
	f.Fuzz(func(t *testing.T, data []byte) {
		zinotest.Must(t, os.WriteFile(path(dir), data, 0o600))
		c := openCache(t, dir)
		size := c.Dimensions()
		if size > 0 && c.Len() > (len(data)-headerSize(model))/recordSize(size) {
			t.Errorf("%d vectors of %d dimensions in %d bytes", c.Len(), size, len(data))
		}
		if size == 0 {
			size = 2
		}
		if size > 100 {
			return
		}
		n := c.Len()
		if !c.Has(KeyOf("c")) {
			n++
		}
		add(t, c, size, "c")
		again := openCache(t, dir)
		if again.Len() != n || c.Len() != n || !again.Has(KeyOf("c")) {
			t.Errorf("%d and %d vectors, want %d", c.Len(), again.Len(), n)
		}
	})
}
