package undo

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// gitFile is what the index of a git repository says of a file.
type gitFile struct {
	blob         string // in hex
	mtime, ctime int64  // nanoseconds
	ino, size    uint32 // the low 32 bits
}

// errGitIndex is the error of an index that is damaged, or of a form that is not read.
var errGitIndex = errors.New("invalid git index")

// Flags of an entry of an index.
const (
	gitAssumeValid  = 0x8000
	gitExtended     = 0x4000
	gitStage        = 0x3000
	gitNameMask     = 0x0fff
	gitSkipWorktree = 0x4000 // of the extended flags
	gitIntentToAdd  = 0x2000
)

// parseGitIndex reads an index of version 2, 3 or 4 whose object names have hash
// bytes. It returns the regular files by their path, without those whose stat git
// does not rely on either: unmerged, intended to be added, assumed unchanged, and
// changed no earlier than the index was written (at, in nanoseconds).
func parseGitIndex(data []byte, hash int, at int64) (map[string]gitFile, error) {
	if len(data) < 12+hash || string(data[:4]) != "DIRC" {
		return nil, errGitIndex
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("%w: version %d", errGitIndex, version)
	}
	rest := data[12 : len(data)-hash]
	fixed := 40 + hash + 2
	files := make(map[string]gitFile, min(int(count), len(rest)/fixed))
	var name []byte
	for range count {
		if len(rest) < fixed {
			return nil, errGitIndex
		}
		word := func(i int) uint32 { return binary.BigEndian.Uint32(rest[4*i:]) }
		f := gitFile{
			ctime: int64(word(0))*1e9 + int64(word(1)), mtime: int64(word(2))*1e9 + int64(word(3)),
			ino: word(5), size: word(9), blob: hex.EncodeToString(rest[40 : 40+hash]),
		}
		mode, flags := word(6), binary.BigEndian.Uint16(rest[40+hash:])
		length, more := fixed, uint16(0)
		if flags&gitExtended != 0 && version > 2 {
			if len(rest) < fixed+2 {
				return nil, errGitIndex
			}
			more, length = binary.BigEndian.Uint16(rest[fixed:]), fixed+2
		}
		if version == 4 { // the name without the start that it shares with the one before
			drop, n := gitOffset(rest[length:])
			end := bytes.IndexByte(rest[length+n:], 0)
			if n == 0 || drop > uint64(len(name)) || end < 0 {
				return nil, errGitIndex
			}
			name = append(name[:len(name)-int(drop)], rest[length+n:length+n+end]...)
			rest = rest[length+n+end+1:]
		} else {
			end := bytes.IndexByte(rest[length:], 0)
			if end < 0 {
				return nil, errGitIndex
			}
			name = append(name[:0], rest[length:length+end]...)
			padded := (length + end + 8) &^ 7
			if len(rest) < padded {
				return nil, errGitIndex
			}
			rest = rest[padded:]
		}
		if mode>>12 == 0o10 && flags&(gitAssumeValid|gitStage) == 0 && more&(gitSkipWorktree|gitIntentToAdd) == 0 && f.mtime < at && f.ctime < at {
			files[string(name)] = f
		}
	}
	return files, checkGitExtensions(rest)
}

// checkGitExtensions refuses an index with an extension that is required to read it:
// a part of it is in another file, or it has directories in place of files.
func checkGitExtensions(rest []byte) error {
	for len(rest) > 0 {
		if len(rest) < 8 {
			return errGitIndex
		}
		name, size := rest[:4], binary.BigEndian.Uint32(rest[4:])
		if name[0] < 'A' || name[0] > 'Z' {
			return fmt.Errorf("%w: extension %q", errGitIndex, name)
		}
		if uint64(len(rest)-8) < uint64(size) {
			return errGitIndex
		}
		rest = rest[8+size:]
	}
	return nil
}

// gitOffset reads a number of variable length, and returns the number of its bytes:
// 0 if it is cut off or too large.
func gitOffset(b []byte) (value uint64, n int) {
	for n < len(b) && n < 9 {
		c := b[n]
		if n++; n > 1 {
			value++
		}
		value = value<<7 | uint64(c&0x7f)
		if c < 0x80 {
			return value, n
		}
	}
	return 0, 0
}
