package durable

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestLastUneven reads elements of very different lengths, so that those at
// the end do not tell how long the ones before them are.
func TestLastUneven(t *testing.T) {
	for name, size := range map[string]func(i int) int{
		"long first": func(i int) int { return 200_000 >> i },
		"long last":  func(i int) int { return 1 << i },
		"all long":   func(int) int { return 30_000 },
	} {
		a, seen, _ := newArray(t, "")
		var want []string
		for i := range 18 {
			e := fmt.Sprintf(`{"i":%d,"pad":"%s"}`, i, strings.Repeat("x", size(i)))
			mustAppend(t, a, []byte(e))
			want = append(want, e)
		}
		for n := range 19 {
			list, err := a.Last(n, 0)
			if err != nil || len(*seen) != 0 {
				t.Fatal(name, n, err, *seen)
			}
			rest := want[(len(want)-n)%len(want):]
			if got := string(bytes.Join(list, []byte("\n"))); got != strings.Join(rest, "\n") {
				t.Errorf("%s: Last(%d) has %d elements, %.60s", name, n, len(list), got)
			}
		}
	}
}
