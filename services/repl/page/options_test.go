package page

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestFenceOptions(t *testing.T) {
	for _, c := range []struct {
		words string
		want  fenceOptions
	}{
		{"", fenceOptions{}},
		{"timeout=10", fenceOptions{timeout: 10 * time.Second}},
		{"timeout=0.5  max=64\tafter=reload test", fenceOptions{timeout: 500 * time.Millisecond, bodyMax: 64 << 10, afterReload: true, test: true}},
		{"timeout=1e-9", fenceOptions{timeout: time.Millisecond}},
		{"timeout=1 timeout=2", fenceOptions{timeout: 2 * time.Second}},
		{"max=1024", fenceOptions{bodyMax: 1 << 20}},
	} {
		if got := parseFenceOptions(c.words); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, want %+v", c.words, got, c.want)
		}
	}
	for words, want := range map[string]string{
		"timeout":                  "timeout; it is seconds",
		"timeout=":                 "timeout=; it is seconds",
		"timeout=0":                "it is seconds",
		"timeout=-1":               "it is seconds",
		"timeout=NaN":              "it is seconds",
		"timeout=Inf":              "it is seconds",
		"timeout=10s":              "timeout=10s; it is seconds, up to 86400, as in timeout=10",
		"timeout=86401":            "it is seconds",
		"max":                      "it is KiB",
		"max=0":                    "it is KiB",
		"max=1025":                 "it is KiB",
		"max=8k":                   "ignored: max=8k; it is KiB, 1 to 1024, as in max=64",
		"max=99999999999999999999": "it is KiB",
		"after":                    "it is after=reload",
		"after=load":               "ignored: after=load; it is after=reload",
		"test=1":                   "unknown option test=1; there are timeout=SECONDS, max=KIB, after=reload and test",
		"\x1b\u202e":               `unknown option \u001b\u202e;`,
		strings.Repeat("x", 99):    "unknown option " + strings.Repeat("x", 60) + "...;",
	} {
		got := parseFenceOptions(words)
		if len(got.faults) != 1 || !strings.Contains(got.faults[0], want) {
			t.Errorf("%q: %q, want %q", words, got.faults, want)
		}
		if got.faults = nil; !reflect.DeepEqual(got, fenceOptions{}) {
			t.Errorf("%q: %+v", words, got)
		}
	}
	if got := parseFenceOptions("a b c d e f g timeout=3"); len(got.faults) != 6 || got.faults[5] != "... and more" || got.timeout != 3*time.Second {
		t.Errorf("%+v", got)
	}
}

// FuzzFenceOptions checks that the values of any options are in their ranges and
// the faults are a few short lines that can be shown.
func FuzzFenceOptions(f *testing.F) {
	for _, s := range append([]string{"timeout=10 max=64 after=reload test", "timeout=1e308 max=-1 after= \x00=\u2028", "title=x {1,3}"}, phrases...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, words string) {
		o := parseFenceOptions(words)
		if o.timeout < 0 || o.timeout > timeoutMax || o.bodyMax < 0 || o.bodyMax > 1<<20 || len(o.faults) > faultsMax+1 {
			t.Fatalf("%q: %+v", words, o)
		}
		for _, s := range o.faults {
			if len(s) > 200 || strings.ContainsFunc(s, hostile) || strings.Contains(s, "\n") {
				t.Fatalf("%q: %q", words, s)
			}
		}
	})
}
