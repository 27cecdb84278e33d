// Package textfile reads text files from untrusted directories. A pipe, a device or a
// huge file can neither block it nor make it read more than the limit.
package textfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"unicode/utf8"
)

// Errors of files that are not text.
var (
	ErrDirectory  = errors.New("is a directory")
	ErrNotRegular = errors.New("is not a regular file")
	ErrNotUTF8    = errors.New("is not UTF-8")
)

// Mark is the byte order mark, which some editors put before UTF-8.
const Mark = "\uFEFF"

// NotText reports whether err is one of the errors of this package.
func NotText(err error) bool {
	return err == ErrDirectory || err == ErrNotRegular || err == ErrNotUTF8
}

// Head returns at most the first limit bytes of a file, cut between two characters,
// and the size of the file. Errors do not contain the path; the error for a missing
// file is fs.ErrNotExist.
func Head(path string, limit int) (text string, size int64, err error) {
	return head(path, limit, os.Stat, os.OpenFile)
}

// HeadIn is like Head for a file in root. A symbolic link out of root is an error.
func HeadIn(root *os.Root, name string, limit int) (text string, size int64, err error) {
	return head(name, limit, root.Stat, root.OpenFile)
}

type (
	statFunc func(string) (fs.FileInfo, error)
	openFunc func(string, int, fs.FileMode) (*os.File, error)
)

func head(path string, limit int, stat statFunc, open openFunc) (text string, size int64, err error) {
	data, size, err := read(path, limit+1, stat, open)
	if err != nil {
		return "", 0, reason(err)
	}
	if data = cut(data, limit); !utf8.Valid(data) {
		return "", 0, ErrNotUTF8
	}
	return string(data), size, nil
}

// read returns up to limit bytes of a regular file, and its size.
func read(path string, limit int, stat statFunc, open openFunc) (data []byte, size int64, err error) {
	info, err := stat(path)
	if err == nil {
		err = regular(info) // before open, which can have side effects
	}
	if err != nil {
		return nil, 0, err
	}
	// The file may have been replaced since stat: O_NONBLOCK doesn't wait for a
	// pipe's writer.
	f, err := open(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if info, err = f.Stat(); err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, 0, err
	}
	data, err = io.ReadAll(io.LimitReader(f, int64(limit)))
	size = int64(len(data))
	if len(data) == limit {
		size = max(size, info.Size())
	}
	return data, size, err
}

func regular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return ErrDirectory
	case !info.Mode().IsRegular():
		return ErrNotRegular
	}
	return nil
}

// cut shortens data to at most limit bytes, without splitting a character.
func cut(data []byte, limit int) []byte {
	if len(data) <= limit {
		return data
	}
	end := limit
	for end > 0 && limit-end < utf8.UTFMax-1 && !utf8.RuneStart(data[end]) {
		end--
	}
	return data[:end]
}

// reason removes the path from an error of os.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
