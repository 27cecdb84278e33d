package undo

import (
	"context"
	"slices"
	"strings"
)

// changesOf returns the changes between two scans of a root, by path.
func changesOf(ctx context.Context, root *root, before, after map[string]*entry, by By) ([]Change, error) {
	var paths []string
	for path, b := range before {
		if a := after[path]; a == nil || !unchanged(b, a) {
			paths = append(paths, path)
		}
	}
	for path := range after {
		if before[path] == nil {
			paths = append(paths, path)
		}
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return hidden(before, path) || hidden(after, path) })
	slices.Sort(paths)
	if err := hashBlobs(ctx, paths, before); err != nil {
		return nil, err
	}
	var changes []Change
	for _, path := range paths {
		b, a := before[path], after[path]
		if a != nil && a.blob != "" && a.sum == "" {
			if err := hashFile(root, path, a); err != nil {
				return nil, err
			}
		}
		if b != nil && a != nil && b.state().same(a.state()) {
			continue
		}
		changes = append(changes, newChange(root.path, path, b.state(), a.state(), by))
	}
	return changes, nil
}

// unchanged reports whether two entries show at first sight that nothing changed.
func unchanged(b, a *entry) bool {
	if b.kind != a.kind || b.mode != a.mode || b.uid != a.uid || b.gid != a.gid || b.text != a.text {
		return false
	}
	switch {
	case b.kind != kindFile:
		return true
	case b.sum != "" && a.sum != "":
		return a.sum == b.sum
	case b.blob != "" && a.blob != "":
		return a.blob == b.blob
	}
	return b.sameStat(a)
}

// hidden reports whether a directory above a path was not read: nothing is known of
// the path.
func hidden(entries map[string]*entry, path string) bool {
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if e := entries[path[:i]]; e != nil && e.kind == kindDir && e.racy {
			return true
		}
	}
	return false
}

// hashBlobs fills in the hashes of files whose images git has. A blob that git does
// not have any more is left out.
func hashBlobs(ctx context.Context, paths []string, entries map[string]*entry) error {
	byRepo := map[string][]*entry{}
	for _, path := range paths {
		if e := entries[path]; e != nil && e.blob != "" && e.sum == "" {
			byRepo[e.git] = append(byRepo[e.git], e)
		}
	}
	for dir, list := range byRepo {
		var names []string
		for _, e := range list {
			names = append(names, e.blob)
		}
		sums, err := blobSums(ctx, dir, names)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		for _, e := range list {
			if e.sum = sums[e.blob]; e.sum == "" {
				e.blob, e.git = "", ""
			}
		}
	}
	return nil
}

// hashFile fills in the hash of a file, if it is still as it was scanned.
func hashFile(root *root, path string, e *entry) error {
	f, err := root.openRegular(path)
	if err != nil {
		return nil // it is gone again: without a hash undo refuses
	}
	defer f.Close()
	sum, err := sumOf(f)
	if err != nil {
		return err
	}
	if st, err := fstat(f); err == nil && entryOf(&st).sameStat(e) {
		e.sum = sum
	}
	return nil
}
