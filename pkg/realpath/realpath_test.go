package realpath_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"zino/pkg/realpath"
	"zino/pkg/zinotest"
)

func TestFollow(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	zinotest.Must(t, err)
	zinotest.Must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o700))
	zinotest.Must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for name, to := range map[string]string{"up": "a/b", "abs": dir + "/a", "dangling": "nowhere/x", "loop": "loop"} {
		zinotest.Must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for _, tt := range []struct {
		path, real string
		missing    int
	}{
		{"a/b", "a/b", 0},
		{"up/../x", "a/x", 1}, // of the link's target, as in the kernel
		{"abs/./b//", "a/b", 0},
		{"dangling", "nowhere/x", 2},
		{"new/deep/../x", "new/x", 2},
	} {
		real, missing, err := realpath.Follow(dir + "/" + tt.path)
		if err != nil || real != filepath.Join(dir, tt.real) || missing != tt.missing {
			t.Errorf("%s: %s, %d missing, %v", tt.path, real, missing, err)
		}
	}
	if _, _, err := realpath.Follow(dir + "/loop"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("loop: %v", err)
	}
	_, _, err = realpath.Follow(dir + "/file/x")
	if _, ok := errors.AsType[realpath.DirError](err); !ok {
		t.Errorf("below a file: %v", err)
	}
}
