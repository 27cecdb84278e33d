package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"zino/pkg/zinotest"
)

func TestAtLeast(t *testing.T) {
	for release, want := range map[string]bool{
		"5.14.0": true, "5.14": true, "5.13.9": false, "6.1.0-9-amd64": true, "4.19": false, "10.0": true, "6": false, "": false, "x.y": false, "5.x": false,
	} {
		zinotest.Equal(t, release, atLeast(release, 5, 14), want)
	}
}

func TestHost(t *testing.T) {
	none := errors.New("refused")
	tests := []struct {
		host  Kernel
		means []string
		able  bool
	}{
		{Kernel{nil, 7}, []string{"namespaces", "landlock", "seccomp", "rlimits"}, true},
		{Kernel{nil, 0}, []string{"namespaces", "seccomp", "rlimits"}, true},
		{Kernel{none, 6}, []string{"landlock", "seccomp", "rlimits"}, true},
		{Kernel{none, 5}, nil, false},
		{Kernel{none, 0}, nil, false},
	}
	for _, tt := range tests {
		err := tt.host.Unable()
		if (err == nil) != tt.able || err != nil && !errors.Is(err, none) {
			t.Errorf("%+v: %v", tt.host, err)
		}
		if got := tt.host.Means(); err == nil && !slices.Equal(got, tt.means) {
			t.Errorf("%+v: %q", tt.host, got)
		}
	}
	if (Kernel{NoNamespaces: none, Landlock: 7}).LimitsTasks() {
		t.Error("tasks are limited in namespaces only")
	}
	if host := Probe(func() error { return none }); host.NoNamespaces != none || host.Landlock < 0 || host.Landlock > len(landlockConfigs) {
		t.Errorf("got %+v", host)
	}
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/a", "/", true}} {
		zinotest.Equal(t, tt.path+" in "+tt.dir, Within(tt.path, tt.dir), tt.want)
	}
	if got := Outermost([]string{"/b", "/a/b", "/a-b", "/a", "/b"}); !slices.Equal(got, []string{"/a", "/a-b", "/b"}) {
		t.Errorf("got %q", got)
	}
}

// tree makes directories and links ("link -> to") below a new one.
func tree(t *testing.T, entries ...string) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	zinotest.Must(t, err)
	for _, e := range entries {
		path, to, link := strings.Cut(e, " -> ")
		path = filepath.Join(base, path)
		zinotest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if link {
			err = os.Symlink(strings.ReplaceAll(to, "BASE", base), path)
		} else {
			err = os.MkdirAll(path, 0o755)
		}
		zinotest.Must(t, err)
	}
	return base
}

func TestCompanions(t *testing.T) {
	base := tree(t, "bin", ".local/bin", ".local/lib", ".local/share", "env/shims", "env/versions", "node/bin", "node/lib", "node/share", "linked -> BASE/node/bin", "up -> BASE", "venv/bin")
	zinotest.Must(t, os.WriteFile(base+"/venv/pyvenv.cfg", nil, 0o600))
	for dir, want := range map[string][]string{
		"bin":         {"bin"},
		".local/bin":  {".local/bin", ".local/lib"}, // share/ holds keys
		"env/shims":   {"env/shims", "env"},
		"node/bin":    {"node/bin", "node/lib", "node/share"},
		"linked":      {"node/bin", "node/lib", "node/share"},
		"venv/bin":    {"venv/bin", "venv/pyvenv.cfg"},
		"":            nil,
		"up":          nil,
		"../":         nil,
		"no/such/dir": nil,
	} {
		got := Companions(filepath.Join(base, dir), base)
		for i := range want {
			want[i] = filepath.Join(base, want[i])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
	if got := Companions("bin", base); got != nil {
		t.Errorf("a relative directory: %q", got)
	}
}

func TestSystem(t *testing.T) {
	base := tree(t, "node/bin", "node/lib")
	got := System("/usr/bin:"+base+"/node/bin:relative:", base)
	for dir, want := range map[string]bool{"/usr": true, "/etc": true, base + "/node/bin": true, base + "/node/lib": true, base: false, "/usr/bin": false, "/": false} {
		if slices.Contains(got, dir) != want {
			t.Errorf("%s: %v in %q", dir, !want, got)
		}
	}
}

func TestWithout(t *testing.T) {
	base := tree(t, "a/secret", "a/open", "a/deep/secret", "a/deep/open", "b", "a/link -> BASE/b")
	at := func(names ...string) (paths []string) {
		for _, n := range names {
			paths = append(paths, filepath.Join(base, n))
		}
		return paths
	}
	got := without(at("a", "b", "gone"), at("a/secret", "a/deep/secret", "b/none"))
	if want := at("a/deep/open", "a/open", "gone"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := without(at("a"), at("a")); got != nil {
		t.Errorf("what is hidden itself: %q", got)
	}
}

func TestRoot(t *testing.T) {
	base := tree(t, "home/project", "link -> BASE/home/project", "loop -> loop", "rel -> home")
	home := base + "/home"
	for dir, want := range map[string]string{
		base + "/home/project":      base + "/home/project",
		base + "/home/./project/":   base + "/home/project",
		base + "/home/x/../project": base + "/home/project",
		"/usr":                      "/usr",
	} {
		if got, err := Root(dir, home); got != want || err != nil {
			t.Errorf("%s: %q, %v", dir, got, err)
		}
	}
	for dir, why := range map[string]string{
		"/": "whole file system", home: "home directory", base: "home directory", "/proc/self": "", "/dev/shm": "", base + "/gone": "no such file",
		base + "/link": "symbolic link", base + "/rel/project": "symbolic link", base + "/loop": "symbolic link",
	} {
		if got, err := Root(dir, home); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %q, %v", dir, got, err)
		}
	}
}

// Links in directories that this user cannot change are followed.
func TestFirmFollowsLinksOfSystem(t *testing.T) {
	for _, link := range []string{"/bin", "/sbin", "/lib"} {
		real, err := filepath.EvalSymlinks(link)
		if err != nil || real == link {
			continue
		}
		got, err := firm(link)
		if mine := unix.Access("/", unix.W_OK) == nil; mine != (err != nil) || !mine && got != real {
			t.Errorf("%s: %q, %v", link, got, err)
		}
	}
	if got, err := firm("/"); got != "/" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAttr(t *testing.T) {
	var plain, quiet, open syscall.SysProcAttr
	(&Plan{}).Attr(&plain)
	(&Plan{Namespaces: true}).Attr(&quiet)
	(&Plan{Namespaces: true, Network: true}).Attr(&open)
	if plain.Cloneflags != 0 || plain.UidMappings != nil {
		t.Errorf("without namespaces: %+v", plain)
	}
	if quiet.Cloneflags&unix.CLONE_NEWNET == 0 || open.Cloneflags&unix.CLONE_NEWNET != 0 || open.Cloneflags&unix.CLONE_NEWUSER == 0 {
		t.Errorf("flags %#x and %#x", quiet.Cloneflags, open.Cloneflags)
	}
}
