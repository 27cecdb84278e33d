package cgroup

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func TestOwnGroup(t *testing.T) {
	tests := []struct {
		text, path string
		ok         bool
	}{
		{"0::/\n", "/", true},
		{"9:name=systemd:/\n4:memory:/x\n0::/user.slice/a b\n", "/user.slice/a b", true},
		{"4:memory:/x\n", "", false},
		{"0::x\n", "", false},
		{"", "", false},
	}
	for _, tt := range tests {
		if path, ok := ownGroup(tt.text); path != tt.path || ok != tt.ok {
			t.Errorf("%q: %q, %v", tt.text, path, ok)
		}
	}
}

func TestParseMounts(t *testing.T) {
	text := `23 1 0:20 / /proc rw,nosuid - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
38 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw
39 31 0:38 /a\040b /mnt/x\134y rw - cgroup2 none rw
40 31 0:38 / - cgroup2 none rw
broken
`
	want := []mount{{"/", "/sys/fs/cgroup/unified"}, {"/a b", `/mnt/x\y`}}
	if got := parseMounts(text); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestBelow(t *testing.T) {
	tests := []struct {
		root, group, below string
		ok                 bool
	}{
		{"/", "/", "/", true},
		{"/", "/a/b", "/a/b", true},
		{"/", "/../b", "/../b", false}, // of a process outside of its namespace's root
		{"/a", "/a/b", "/b", true},
		{"/a", "/a", "", true},
		{"/a", "/ab", "b", false},
		{"/c", "/a/b", "/a/b", false},
	}
	for _, tt := range tests {
		if got, ok := (mount{root: tt.root}).below(tt.group); got != tt.below || ok != tt.ok {
			t.Errorf("%s in %s: %q, %v", tt.group, tt.root, got, ok)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`/a`: "/a", `/a\040b`: "/a b", `/\134`: `/\`, `/\04`: `/\04`, `/\999x`: `/\999x`, `\777a`: `\777a`, `\011`: "\t",
	} {
		zinotest.Equal(t, in, unescape(in), want)
	}
}

func TestParseNumbers(t *testing.T) {
	got := parseNumbers("usage_usec 12\nbad\nneg -1\nmax x\n 3\noom_kill 1")
	if want := map[string]int64{"usage_usec": 12, "oom_kill": 1}; !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestExceeded(t *testing.T) {
	for usage, want := range map[Usage][2]string{ // of a command that succeeds, and of one that fails
		{Peak: -1}:                       {"", ""},
		{TasksDenied: 1}:                 {"", Tasks},
		{TasksDenied: 1, OutOfMemory: 1}: {Memory, Memory},
	} {
		zinotest.Equal(t, "of success", usage.Exceeded(false), want[0])
		zinotest.Equal(t, "of failure", usage.Exceeded(true), want[1])
		zinotest.Equal(t, "peak known", usage.PeakBytes() != nil, usage.Peak >= 0)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("38 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	f.Add("0::/a\n1:b:/c\n")
	f.Add(`1 2 3 /\040 /\134\7 rw - cgroup2`)
	f.Add("usage_usec 5\nmax 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range parseMounts(text) {
			if !strings.Contains(text, "cgroup2") || m.point == "" {
				t.Errorf("%q: %+v", text, m)
			}
		}
		if path, ok := ownGroup(text); ok && !filepath.IsAbs(path) {
			t.Errorf("%q: %q", text, path)
		}
		for name, n := range parseNumbers(text) {
			if n < 0 || name == "" {
				t.Errorf("%q: %q %d", text, name, n)
			}
		}
	})
}
