package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"zino/pkg/mask"
	"zino/proto"
)

const (
	// PacketRoom is how many bytes the outputs may take in a reply, whose cap is
	// 16 MiB.
	PacketRoom = 15 << 20

	fileMax  = 64 << 20 // bytes of a stream that are kept in a file
	filesMax = 32       // files that are kept

	maskAround = 16 << 10 // bytes around a cut that are looked at for secrets

	liveMax  = 4 << 10                // bytes of a packet's text
	livePace = 120 * time.Millisecond // from one packet to the next: with the last one, ten in a second
)

// Output collects the two streams of a command. Memory stays bounded however much
// the command prints, and a Write never fails.
type Output struct {
	Max     int                           // bytes of each stream in the Result: beyond it the head and the tail
	Files   *Files                        // gets the whole of a longer stream; nil: no file
	Ceiling int64                         // bytes of both streams at which the command is stopped; 0: none
	Tap     func(stream string, p []byte) // gets all bytes as they come; nil: none
	Mask    *mask.Masker                  // masks the texts; nil: they are not masked

	stdout, stderr stream
	stop           func()
	total          atomic.Int64
	over           atomic.Bool
}

// begin prepares for the streams of a command that stop stops.
func (o *Output) begin(stop func()) {
	o.stop = stop
	around := 0
	if o.Mask != nil {
		around = maskAround
	}
	o.stdout = stream{out: o, name: "stdout", headMax: o.Max - o.Max/2 + around, tailMax: o.Max/2 + around}
	o.stderr = stream{out: o, name: "stderr", headMax: o.Max - o.Max/2 + around, tailMax: o.Max/2 + around}
}

// texts are the two streams, cut so that they fill one packet at most: control
// characters take six bytes there.
func (o *Output) texts() (stdout, stderr string, truncated bool) {
	for limit := o.Max; ; limit /= 2 {
		stdout, cutOut := o.stdout.text(limit)
		stderr, cutErr := o.stderr.text(limit)
		if escapedLen(stdout)+escapedLen(stderr) <= PacketRoom {
			return stdout, stderr, cutOut || cutErr
		}
	}
}

// Close keeps the files that the texts name, or removes them.
func (o *Output) Close(keep bool) {
	o.stdout.closeFile(keep)
	o.stderr.closeFile(keep)
}

// stream is one output: all of it up to the limit, beyond it the head and the
// tail, and all of it in a file.
type stream struct {
	out        *Output
	name       string
	head, tail []byte // tail is a ring once it is full
	headMax    int
	tailMax    int
	next       int   // where the ring is written next: its oldest byte
	total      int64 // bytes written

	file    string   // the path; empty: no file yet
	f       *os.File // open until the output is complete
	size    int64    // bytes in the file
	fileErr error    // why the file could not be made or written
}

// Write appends p.
func (s *stream) Write(p []byte) (int, error) {
	n, o := len(p), s.out
	if o.Ceiling > 0 && o.total.Add(int64(n)) > o.Ceiling && o.over.CompareAndSwap(false, true) {
		o.stop()
	}
	if o.Tap != nil {
		o.Tap(s.name, p)
	}
	if s.file == "" && s.total+int64(n) > int64(o.Max) {
		s.openFile()
	}
	if s.f != nil {
		s.writeFile(p)
	}
	s.total += int64(n)
	if room := s.headMax - len(s.head); room > 0 {
		fits := min(room, len(p))
		s.head = append(s.head, p[:fits]...)
		p = p[fits:]
	}
	p = p[max(0, len(p)-s.tailMax):]
	if room := s.tailMax - len(s.tail); room > 0 { // the tail grows to its size first
		fits := min(room, len(p))
		s.tail = append(s.tail, p[:fits]...)
		p = p[fits:]
	}
	for len(p) > 0 {
		fits := copy(s.tail[s.next:], p)
		s.next = (s.next + fits) % len(s.tail)
		p = p[fits:]
	}
	return n, nil
}

// kept is the head and behind it the tail.
func (s *stream) kept() []byte {
	kept := append(s.head[:len(s.head):len(s.head)], s.tail[s.next:]...)
	return append(kept, s.tail[:s.next]...)
}

// text is up to limit bytes of the stream as valid UTF-8, and whether the middle
// was left out. A line in its place says how many bytes, and where the file is.
func (s *stream) text(limit int) (string, bool) {
	kept := s.kept()
	if s.total <= int64(min(len(kept), limit)) {
		return decodeMasked(s.out.Mask, kept, 0, len(kept)), false
	}
	half := min(limit, len(kept)) / 2
	head := trimPartialEnd(kept[:min(limit, len(kept))-half])
	tail := trimPartialStart(kept[len(kept)-half:])
	begin, end := kept, kept
	if s.total > int64(len(kept)) { // a gap is between them
		begin, end = kept[:len(s.head)], kept[len(s.head):]
	}
	text := decodeMasked(s.out.Mask, begin, 0, len(head))
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return fmt.Sprintf("%s[%d bytes left out%s]\n%s", text, s.total-int64(len(head)+len(tail)), s.fileNote(), decodeMasked(s.out.Mask, end, len(end)-len(tail), len(end))), true
}

// openFile makes the file and writes the output so far, all of which is still kept.
func (s *stream) openFile() {
	if s.out.Files == nil || s.fileErr != nil {
		return
	}
	if s.f, s.fileErr = s.out.Files.create(s.name); s.fileErr == nil {
		s.file = s.f.Name()
		s.writeFile(s.kept())
	}
}

// writeFile appends as much of p as the file may hold.
func (s *stream) writeFile(p []byte) {
	p = p[:min(int64(len(p)), s.out.Files.bytesMax-s.size)]
	n, err := s.f.Write(p)
	s.size += int64(n)
	if err != nil {
		s.removeFile(err)
	}
}

// removeFile removes the file after an error: a part of an output is of no use, and
// the disk may be full.
func (s *stream) removeFile(why error) {
	closeAll(s.f)
	s.out.Files.removeDir(filepath.Dir(s.file))
	s.f, s.file, s.fileErr = nil, "", why
}

// fileNote completes the file and says where it is. Where control characters make
// a result too long, the file is made only now.
func (s *stream) fileNote() string {
	if s.out.Files == nil {
		return ""
	}
	if s.file == "" {
		s.openFile()
	}
	if s.f != nil {
		if err := s.f.Close(); err != nil {
			s.removeFile(err)
		}
		s.f = nil
	}
	if s.fileErr != nil {
		why := s.fileErr
		if e, ok := errors.AsType[*fs.PathError](why); ok {
			why = e.Err // without the path of a file that is gone
		}
		return fmt.Sprintf("; the full output could not be kept: %v", why)
	}
	if s.total > s.size {
		return fmt.Sprintf("; the first %s are in %s", ByteCount(s.size), s.file)
	}
	return "; the full output is in " + s.file
}

func (s *stream) closeFile(keep bool) {
	switch {
	case s.file == "":
	case keep:
		s.out.Files.keep(s.file)
	default:
		s.removeFile(nil)
	}
}

// Files keeps the last long outputs of commands, each in a directory of its own.
type Files struct {
	newDir    func() (string, error)
	removeDir func(dir string)
	bytesMax  int64 // of one file
	filesMax  int

	mu   sync.Mutex
	dirs []string // one for each file, the oldest first
}

// NewFiles keeps files in directories that newDir makes.
func NewFiles(newDir func() (string, error), removeDir func(dir string)) *Files {
	return &Files{newDir: newDir, removeDir: removeDir, bytesMax: fileMax, filesMax: filesMax}
}

func (f *Files) create(name string) (*os.File, error) {
	dir, err := f.newDir()
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		f.removeDir(dir)
	}
	return file, err
}

// keep keeps a complete file and removes the oldest one for it.
func (f *Files) keep(file string) {
	f.mu.Lock()
	f.dirs = append(f.dirs, filepath.Dir(file))
	drop := f.dirs[:max(0, len(f.dirs)-f.filesMax)]
	f.dirs = f.dirs[len(drop):]
	f.mu.Unlock()
	for _, dir := range drop {
		f.removeDir(dir)
	}
}

// Dirs are the directories of the files that are kept.
func (f *Files) Dirs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.dirs)
}

// ByteCount is a number of bytes for people.
func ByteCount(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// Live shows what a command prints while it runs: the newest of it, from time to
// time. A caller that is slow to read delays only this.
type Live struct {
	send    func(proto.ToolOutput) error
	more    chan struct{} // signals new output
	stopped chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	pending proto.ToolOutput
	partial map[string][]byte // by stream: the beginning of a character
}

// NewLive shows what comes with send, in a goroutine of its own, until Stop.
func NewLive(send func(proto.ToolOutput) error) *Live {
	l := &Live{
		send: send, more: make(chan struct{}, 1), stopped: make(chan struct{}), done: make(chan struct{}),
		partial: map[string][]byte{},
	}
	go l.run()
	return l
}

// Stop shows the rest and waits until the caller has read it, or is gone.
func (l *Live) Stop() {
	l.mu.Lock()
	for _, name := range []string{"stdout", "stderr"} {
		l.add(decode(l.partial[name]), 0)
	}
	l.partial = map[string][]byte{}
	l.mu.Unlock()
	close(l.stopped)
	<-l.done
}

func (l *Live) run() {
	defer close(l.done)
	for {
		select {
		case <-l.more:
		case <-l.stopped:
			_ = l.flush() // a caller that is gone gets no result either
			return
		}
		if l.flush() != nil {
			return
		}
		select {
		case <-time.After(livePace):
		case <-l.stopped:
		}
	}
}

// flush sends the pending output.
func (l *Live) flush() error {
	l.mu.Lock()
	o := l.pending
	l.pending = proto.ToolOutput{}
	l.mu.Unlock()
	if o.Text == "" {
		return nil
	}
	return l.send(o)
}

// add appends text, in front of which left bytes were left out. Only the newest is
// kept. mu is locked.
func (l *Live) add(text string, left int64) {
	o := &l.pending
	if left > 0 {
		o.LeftOut += int64(len(o.Text)) + left
		o.Text = ""
	}
	o.Text += text
	cut := max(0, len(o.Text)-liveMax)
	for cut < len(o.Text) && !utf8.RuneStart(o.Text[cut]) {
		cut++
	}
	o.LeftOut += int64(cut)
	o.Text = o.Text[cut:]
}

// Tap is an Output's Tap. It never waits.
func (l *Live) Tap(stream string, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := append(l.partial[stream], p...)
	whole := trimPartialEnd(all)
	newest := whole
	if len(whole) > liveMax {
		newest = trimPartialStart(whole[len(whole)-liveMax:])
	}
	l.add(decode(newest), int64(len(whole)-len(newest)))
	l.partial[stream] = append(all[:0:0], all[len(whole):]...)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// trimPartialEnd cuts off an incomplete character.
func trimPartialEnd(p []byte) []byte {
	for i := len(p) - 1; i >= 0 && i > len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return p[:i]
			}
			break
		}
	}
	return p
}

// trimPartialStart cuts off the rest of a character whose beginning is missing: at
// most three bytes. More such bytes are not UTF-8.
func trimPartialStart(p []byte) []byte {
	for i := range min(len(p), utf8.UTFMax) {
		if utf8.RuneStart(p[i]) {
			return p[i:]
		}
	}
	if len(p) < utf8.UTFMax {
		return nil
	}
	return p
}

// decode makes p valid UTF-8. Like most decoders, and unlike strings.ToValidUTF8, it
// writes one U+FFFD for each bad byte, or for an incomplete character.
func decode(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	var b strings.Builder
	b.Grow(len(p) + len(p)/8)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			n = brokenLen(p)
		}
		b.WriteRune(r)
		p = p[n:]
	}
	return b.String()
}

// decodeMasked decodes p[from:to] without secrets, also those that are only partly in it.
func decodeMasked(m *mask.Masker, p []byte, from, to int) string {
	if m == nil {
		return decode(p[from:to])
	}
	part, _ := m.Part(p, from, to)
	return decode(part)
}

// brokenLen is the length of the broken character at the start of p: as many
// bytes as could have begun a valid one, at least 1.
func brokenLen(p []byte) int {
	n := 1
	for n < len(p) && n < utf8.UTFMax && !utf8.FullRune(p[:n+1]) {
		n++
	}
	return n
}

// escapedLen is the largest number of bytes that s takes in a JSON string.
func escapedLen(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == 0x7f:
			n += 5
		case c == '"' || c == '\\':
			n++
		}
	}
	return n
}
