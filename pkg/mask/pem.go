package mask

import "bytes"

const (
	maxPEM  = 16 << 10
	begin   = "-----BEGIN "
	private = "PRIVATE KEY"
)

// markerLength returns the length of the first line of a PEM private key at the
// start of text, such as "-----BEGIN OPENSSH PRIVATE KEY-----"; 0 without one.
func markerLength(text []byte) int {
	if !bytes.HasPrefix(text, []byte(begin)) {
		return 0
	}
	head := text[len(begin):min(len(text), 80)]
	i := bytes.Index(head, []byte("-----"))
	if i < 0 {
		return 0
	}
	label := bytes.TrimSuffix(head[:i], []byte(" BLOCK"))
	if !bytes.HasSuffix(label, []byte(private)) {
		return 0
	}
	return len(begin) + i + len("-----")
}

// pemLength returns the length of the private key at the start of text, 0 if there is
// none, and -1 if that depends on text to come. A continued key begins within its
// body; more reports that text[:n] is 16 KiB of a longer one.
//
// A key ends with its END line. Lines may have anything in front of the Base64, such
// as line numbers. Without an END line the key ends with its last line of 40 Base64
// characters, and a first line without such lines near it, as in source code, is not a block.
func pemLength(text []byte, continued, final bool) (n int, more bool) {
	whole := final && len(text) < maxPEM
	text = text[:min(len(text), maxPEM)]
	at := 0
	if !continued {
		at = markerLength(text)
		if n := escapedLength(text[at:]); n > 0 {
			if at+n == len(text) && !whole && n < maxPEM-at {
				return -1, false
			}
			return at + n, false
		}
	}
	last, others, chars := 0, 0, 0
	for first := !continued; ; first = false {
		line, _, found := bytes.Cut(text[at:], []byte("\n"))
		if !found && !whole {
			break
		}
		if i := bytes.Index(line, []byte("-----END ")); i >= 0 && !first {
			if chars < minHint && !continued {
				return 0, false
			}
			end := at + i + len("-----END ")
			if j := bytes.Index(text[end:at+len(line)], []byte("-----")); j >= 0 {
				end += j + len("-----")
			}
			return end, false
		}
		run := base64Tail(line)
		switch {
		case run >= 40:
			last, others = at+len(line), 0
		case !first:
			others++
		}
		if !first {
			chars += run
		}
		if last == 0 && others > 8 || last > 0 && others > 3 || continued && others > 3 {
			return last, false
		}
		if !found {
			return last, false
		}
		at += len(line) + 1
	}
	if len(text) < maxPEM {
		return -1, false
	}
	if last > 0 {
		last = len(text)
	}
	return last, last > 0
}

// maskEnds masks ends of private keys whose first line is not in the text, as in the
// output of tail, or in a diff.
func (m *Masker) maskEnds(text []byte) (masked []byte, count int) {
	const end = "-----END "
	if !m.shapes || !bytes.Contains(text, []byte(private)) {
		return text, 0
	}
	done := 0
	for at := 0; ; at += len(end) {
		i := bytes.Index(text[at:], []byte(end))
		if i < 0 {
			break
		}
		at += i
		if head, _, _ := bytes.Cut(text[at+len(end):min(len(text), at+80)], []byte("-----")); !bytes.Contains(head, []byte(private)) {
			continue
		}
		last := bytes.LastIndexByte(text[:at], '\n') // of the key
		from, to, chars := last, last, 0
		for to >= done && last >= done {
			start := bytes.LastIndexByte(text[:last], '\n') + 1
			line := text[start:last]
			run := base64Tail(line)
			if bytes.Contains(line, []byte(begin)) {
				from = to // it is a whole one
				break
			}
			if run < 40 && (from < to || run == 0) || start < done {
				break
			}
			chars += run
			tail := bytes.TrimRight(line, " \t\r\"'`,;+)")
			from, last = start+len(bytes.TrimSuffix(tail, []byte(`\n`)))-run, start-1
		}
		if from < to && chars >= 40 {
			masked = m.appendPlaceholder(append(masked, text[done:from]...), kindPEM, text[from:to])
			done, count = to, count+1
		}
	}
	if count == 0 {
		return text, 0
	}
	return append(masked, text[done:]...), count
}

// escapedLength returns the length of the rest of a key on one line, in which "\n" or
// blanks stand for line ends; 0 if the rest of the line is not a key.
func escapedLength(text []byte) int {
	n, run, longest := 0, 0, 0
	for ; n < len(text) && escapedPEM[text[n]]; n++ {
		run++
		if !base64Char[text[n]] {
			run = 0
		}
		longest = max(longest, run)
	}
	if i := bytes.Index(text[:n], []byte("-----END ")); i >= 0 && longest >= minHint {
		end := i + len("-----END ")
		if j := bytes.Index(text[end:n], []byte("-----")); j >= 0 {
			return end + j + len("-----")
		}
	}
	if longest < 40 {
		return 0
	}
	return n
}

// base64Tail returns the number of Base64 characters at the end of a line, before
// quotes, commas and escaped line ends.
func base64Tail(line []byte) int {
	line = bytes.TrimRight(line, " \t\r\"'`,;+)")
	line = bytes.TrimSuffix(line, []byte(`\n`))
	n := 0
	for n < len(line) && base64Char[line[len(line)-1-n]] {
		n++
	}
	return n
}
