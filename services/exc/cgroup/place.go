package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// locate is the directory of the group that this process is in.
func locate() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	own, ok := ownGroup(string(groups))
	if !ok {
		return "", errors.New("this host has no control groups of version 2")
	}
	for _, m := range parseMounts(string(mounts)) {
		if below, ok := m.below(own); ok {
			return filepath.Join(m.point, below), nil
		}
	}
	return "", fmt.Errorf("the control groups of version 2 are not mounted here")
}

// ownGroup takes the process's place from the text of /proc/self/cgroup, whose
// line for version 2 is "0::/path".
func ownGroup(text string) (string, bool) {
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok && strings.HasPrefix(path, "/") {
			return path, true
		}
	}
	return "", false
}

// mount is a place where the hierarchy, or a part of it, can be seen.
type mount struct {
	root  string // the group that is seen there
	point string
}

// below is where the group is under the mount's point, if it is seen there.
func (m mount) below(group string) (string, bool) {
	if m.root == "/" {
		return group, !strings.Contains(group, "/../") && !strings.HasPrefix(group, "/..")
	}
	rest, ok := strings.CutPrefix(group, m.root)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// parseMounts takes the places of version 2 from the text of
// /proc/self/mountinfo: "id parent dev root point options [tags] - type …".
func parseMounts(text string) (list []mount) {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 6 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		list = append(list, mount{unescape(fields[3]), unescape(fields[4])})
	}
	return list
}

// unescape undoes the kernel's way to write blanks and backslashes in paths:
// three octal digits behind a backslash.
func unescape(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+3 < len(path) {
			if c, ok := octal(path[i+1 : i+4]); ok {
				b.WriteByte(c)
				i += 3
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

func octal(digits string) (byte, bool) {
	n := 0
	for _, d := range []byte(digits) {
		if d < '0' || d > '7' {
			return 0, false
		}
		n = 8*n + int(d-'0')
	}
	return byte(n), n < 256
}
