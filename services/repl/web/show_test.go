package web

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestLongValues checks that values of up to 64 MiB arrive whole in a file beside the
// log.
func TestLongValues(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app})
	b.browse(b.url("/app.html"))
	id := b.connected("index-7-zen", 1).ID
	whole := func(code string) (proto.Evaluated, string) {
		got := b.eval(id, code)
		if !got.OK {
			t.Fatalf("%s: %s", code, got.Error)
		}
		if got.Whole != "" {
			return got, zinotest.Read(t, filepath.Join(b.dir, got.Whole))
		}
		return got, valueOf(got)
	}
	limit := 64<<20 - 1<<16
	if got, text := whole(fmt.Sprintf("'x'.repeat(%d)", limit)); got.Kind != "text" || text != strings.Repeat("x", limit) {
		t.Errorf("a string of %d bytes: %s, %d bytes", limit, got.Kind, len(text))
	}
	var numbers []int
	if got, text := whole("Array.from({length: 1e6}, (_, i) => i)"); got.Kind != "json" || json.Unmarshal([]byte(text), &numbers) != nil || len(numbers) != 1e6 || numbers[999_999] != 999_999 {
		t.Errorf("an array: %s, %d numbers", got.Kind, len(numbers))
	}
	var keys map[string]struct{ N int }
	if got, text := whole("Object.fromEntries(Array.from({length: 1e5}, (_, i) => ['key' + i, {n: i}]))"); got.Kind != "json" || json.Unmarshal([]byte(text), &keys) != nil || len(keys) != 1e5 || keys["key77"].N != 77 {
		t.Errorf("an object: %s, %d keys", got.Kind, len(keys))
	}
}
