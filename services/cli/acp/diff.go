package acp

import (
	"os"
	"strconv"
	"strings"
)

// maxSide is the size of the largest file whose whole text is sent with a change.
const maxSide = 1 << 20

// sides returns a file before and after a change, from its present text and the unified
// diff. before is nil if the change has made the file. ok is false if the file is large or
// no longer has what the diff has made of it.
func sides(path, diff string) (before *string, after string, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSide {
		return nil, "", false
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, "", false
	}
	after = string(b)
	old, ok := reversed(after, diff)
	if !ok || len(old) > maxSide {
		return nil, "", false
	}
	if old == "" && strings.HasPrefix(diff, "--- /dev/null") {
		return nil, after, true
	}
	return &old, after, true
}

// reversed takes a unified diff back.
func reversed(after, diff string) (before string, ok bool) {
	lines := strings.SplitAfter(after, "\n")
	if n := len(lines); lines[n-1] == "" {
		lines = lines[:n-1]
	}
	var b strings.Builder
	at := 0 // the next line of after
	patch := strings.SplitAfter(diff, "\n")
	for i := 0; i < len(patch); {
		start, isHunk := hunkStart(patch[i])
		i++
		if !isHunk {
			continue
		}
		if start < at || start > len(lines) {
			return "", false
		}
		for ; at < start; at++ {
			b.WriteString(lines[at])
		}
		for ; i < len(patch) && patch[i] != "" && strings.ContainsRune(" +-\\", rune(patch[i][0])); i++ {
			line := patch[i][1:]
			if i+1 < len(patch) && strings.HasPrefix(patch[i+1], `\`) { // No newline at end of file
				line = strings.TrimSuffix(line, "\n")
			}
			switch patch[i][0] {
			case '-':
				b.WriteString(line)
			case '\\':
			default:
				if at >= len(lines) || lines[at] != line {
					return "", false
				}
				if patch[i][0] == ' ' {
					b.WriteString(line)
				}
				at++
			}
		}
	}
	for ; at < len(lines); at++ {
		b.WriteString(lines[at])
	}
	return b.String(), true
}

// hunkStart returns the index of the first new line of a hunk: @@ -1,2 +3,4 @@.
func hunkStart(line string) (start int, ok bool) {
	if !strings.HasPrefix(line, "@@ -") {
		return 0, false
	}
	_, rest, _ := strings.Cut(line, " +")
	place, _, found := strings.Cut(rest, " @@")
	if !found {
		return 0, false
	}
	first, count, counted := strings.Cut(place, ",")
	start, err := strconv.Atoi(first)
	if err != nil || start < 0 {
		return 0, false
	}
	if counted && count == "0" { // behind that line
		return start, true
	}
	return max(start-1, 0), true
}
