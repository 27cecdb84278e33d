package zinotest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Node returns the program of Node and the directory of the foreign clients that it runs:
// those of testdata/node/package.json, which .ci/node installs.
func Node(t testing.TB) (program, modules string) {
	t.Helper()
	dir, err := os.Getwd()
	Must(t, err)
	for !exists(filepath.Join(dir, "go.mod")) {
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	modules, err = filepath.EvalSymlinks(filepath.Join(dir, "testdata/node/node_modules"))
	if err != nil {
		NotTested(t, "foreign clients: %v. Install them: .ci/node", err)
	}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	program = filepath.Join(modules, "node-linux-"+arch, "bin/node")
	if !exists(program) {
		NotTested(t, "foreign clients: no Node for %s: %s", runtime.GOARCH, program)
	}
	return program, modules
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
