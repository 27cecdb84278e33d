package exc

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"zino/services/exc/files"
)

// directory is the directory to work in, that of this process if root is empty.
// What is no directory that one can work in is an error of the caller's.
func directory(root string) (string, error) {
	if root == "" {
		dir, err := os.Getwd()
		return dir, unusable("the directory that exc was started in", err)
	}
	if !filepath.IsAbs(root) {
		return "", unusable(root, fmt.Errorf("not an absolute path"))
	}
	err := unix.Access(root+"/.", unix.X_OK)
	return root, unusable(root, err)
}

// unusable is the error for a directory, nil if there is none.
func unusable(root string, err error) error {
	if err == nil {
		return nil
	}
	return &files.Error{Code: files.PathError, Message: fmt.Sprintf("Cannot work in %s: %v", root, err)}
}
