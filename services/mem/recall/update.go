package recall

import (
	"context"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"zino/pkg/durable"
	"zino/proto"
	"zino/services/mem/index"
	"zino/services/mem/session"
)

// pass goes through the index files of sessions and brings them up to date.
type pass struct {
	x    *Index
	ctx  context.Context // ends the building
	dir  *os.Root        // of the index files; nil: they are kept in memory
	data arena[byte]     // the content of the present file
	lost bool            // an index file could not be written
	encoder
}

func (p *pass) close() {
	p.data.free()
	if p.dir != nil {
		p.dir.Close()
	}
}

func (p *pass) cannotKeep(err error) {
	p.lost = true
	p.x.report("the index for recall cannot be kept, so every search builds it again: " + strings.ReplaceAll(err.Error(), "\n", "; ") + durable.Remedy(err))
}

// image returns the index of a log, valid until the next call. complete is false if
// lines are missing because ctx has ended. An image of a log that was replaced is empty.
func (p *pass) image(log session.Log) (img image, complete bool, err error) {
	p.data.list = p.data.list[:0]
	if p.dir != nil {
		f, err := p.dir.OpenFile(fileName(log.ID), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			err = p.read(f)
			f.Close()
		}
		if err == nil {
			img = parse(p.data.list)
		}
	}
	if img.state.isOf(log.Info) {
		return img, true, nil
	}
	u := update{pass: p, id: log.ID}
	defer u.close()
	if p.ctx.Err() == nil {
		err = u.lock()
	}
	if p.ctx.Err() != nil {
		return u.present(img, log.Info), false, nil
	}
	if err != nil {
		p.cannotKeep(err)
	}
	return u.run()
}

// read reads a whole index file.
func (p *pass) read(f *os.File) error {
	p.data.list = p.data.list[:0]
	for {
		p.data.grow(32 << 10)
		space := p.data.list[len(p.data.list):cap(p.data.list)]
		n, err := f.Read(space)
		p.data.list = p.data.list[:len(p.data.list)+n]
		if err == io.EOF || err == nil && n < len(space) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// update brings the index of one log up to date.
type update struct {
	*pass
	id   string
	file *os.File // the locked index file; nil: it cannot be written
	log  *os.File

	img     image
	records []byte // of the next batch
}

// lock opens and locks the index file.
func (u *update) lock() error {
	for u.dir != nil {
		f, err := u.dir.OpenFile(fileName(u.id), os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, durable.FileMode)
		if err != nil {
			return err
		}
		if err = durable.Lock(u.ctx, f); err != nil {
			f.Close()
			return err
		}
		// Another process may have removed the file before it was locked.
		now, err := u.dir.Stat(fileName(u.id))
		if fi, statErr := f.Stat(); err == nil && statErr == nil && os.SameFile(now, fi) {
			u.file = f
			return nil
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (u *update) close() {
	if u.file != nil {
		u.file.Close() // what is missing is built again
	}
	if u.log != nil {
		u.log.Close()
	}
}

// run indexes the lines behind those of the file, or all lines if the log was replaced.
func (u *update) run() (image, bool, error) {
	name := session.LogName(u.id)
	before, err := u.x.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return image{}, false, errors.Join(err, u.remove())
	}
	if err != nil {
		return image{}, false, err
	}
	if u.file != nil {
		if err := u.read(u.file); err == nil {
			u.img = parse(u.data.list) // another process may have written
		}
	}
	if u.img.state.isOf(before) {
		return u.img, true, nil
	}
	if u.log, err = u.x.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return image{}, false, err
	}
	if !u.continues(&u.img.state, before) {
		u.img = image{}
	}
	from := u.img.state.end
	u.img.state.inode = inode(before)
	u.truncate(len(u.img.data))
	sum, err := u.index(from)
	if err != nil && u.ctx.Err() == nil {
		u.truncate(0)
		if from > 0 { // rewritten since continues
			err = nil
		}
		return image{}, false, err
	}
	after, statErr := u.x.root.Lstat(name)
	if errors.Is(statErr, fs.ErrNotExist) { // removed since
		return image{}, false, errors.Join(statErr, u.remove())
	}
	changed := statErr != nil || !os.SameFile(before, after) || before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime())
	if changed && (statErr != nil || !os.SameFile(before, after) || u.sum(from) != sum) {
		u.truncate(0) // rewritten meanwhile
		return image{}, false, nil
	}
	complete := err == nil
	if complete {
		u.img.state.setFile(before)
		if age := time.Since(before.ModTime()); age >= 0 && age < tick {
			u.img.state.mtime = 0 // a later change may get the same time
		}
	}
	u.flush()
	return u.img, complete, nil
}

// tick is more than the granularity of the times of files.
const tick = 20 * time.Millisecond

// present returns the image of a log with these attributes, which was not brought up to
// date.
func (u *update) present(img image, info fs.FileInfo) image {
	var err error
	if u.log, err = u.x.root.OpenFile(session.LogName(u.id), os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil || !u.continues(&img.state, info) {
		return image{}
	}
	return img
}

// continues reports whether the lines of the log that are indexed still stand in it.
func (u *update) continues(st *state, info fs.FileInfo) bool {
	complete := st.size > 0 || st.mtime > 0
	return st.inode == inode(info) && (!complete || info.Size() > st.size) && printOf(u.log, st.end) == st.print
}

// printOf returns a hash of the bytes before an offset of a log. The line break that the
// last line of a log may lack counts.
func printOf(log *os.File, end int64) (print [printSize]byte) {
	b := make([]byte, min(end, 64))
	switch read, _ := log.ReadAt(b, end-int64(len(b))); {
	case read == len(b)-1:
		b[read] = '\n'
	case read < len(b):
		return print
	}
	return sha512.Sum512(b)
}

// index indexes the lines from an offset on. It returns a checksum of them.
func (u *update) index(from int64) (sum uint32, err error) {
	first := from == 0
	if head, _ := u.img.head(); head.kind == hidden {
		return 0, nil
	}
	for line, err := range u.x.store.Lines(u.ctx, u.id, from) {
		if err != nil {
			return sum, err
		}
		sum = checksum(sum, line)
		r := record{offset: line.Start}
		if first {
			r = u.header(line.Text)
		}
		if d, ok := session.ParseDocument(line.Text); ok {
			r = u.document(d)
		}
		first, r.offset = false, line.Start
		if r.kind != 0 {
			u.records = appendRecord(u.records, u.img.last, r)
			u.img.last = r.offset
		}
		u.img.state.end = line.Next
		if r.kind == hidden {
			break
		}
		if len(u.records) >= batchSize {
			u.img.state.size, u.img.state.mtime = 0, 0
			u.flush()
		}
	}
	return sum, nil
}

// sum returns the checksum of the lines that were indexed from an offset on.
func (u *update) sum(from int64) (sum uint32) {
	for line, err := range u.x.store.Lines(u.ctx, u.id, from) {
		if err != nil || line.Start >= u.img.state.end {
			break
		}
		sum = checksum(sum, line)
	}
	return sum
}

func checksum(sum uint32, line durable.Line) uint32 {
	var place [8]byte
	binary.LittleEndian.PutUint64(place[:], uint64(line.Start))
	return crc32.Update(crc32.Update(sum, castagnoli, place[:]), castagnoli, line.Text)
}

// truncate removes what follows the first n bytes of the index.
func (u *update) truncate(n int) {
	u.records = u.records[:0]
	u.data.list = u.data.list[:n]
	u.img.data = u.data.list
	if u.file == nil {
		return
	}
	err := u.file.Truncate(int64(n))
	if err == nil {
		_, err = u.file.Seek(int64(n), io.SeekStart)
	}
	u.failed(err)
}

// flush appends a batch of the records and the state.
func (u *update) flush() {
	u.img.state.print = printOf(u.log, u.img.state.end)
	at := len(u.data.list)
	u.data.grow(len(magic) + binary.MaxVarintLen64 + 4 + len(u.records) + stateSize)
	if at == 0 {
		u.data.list = append(u.data.list, magic...)
	}
	u.data.list = appendBatch(u.data.list, u.records, &u.img.state)
	u.img.data, u.records = u.data.list, u.records[:0]
	if u.file != nil {
		_, err := u.file.Write(u.data.list[at:])
		u.failed(err)
	}
}

// failed stops writing to the index file after an error. What was written of a batch
// does not count.
func (u *update) failed(err error) {
	if err != nil {
		u.cannotKeep(err)
		u.file.Close()
		u.file = nil
	}
}

// remove removes the index file of a session that was removed.
func (u *update) remove() error {
	if u.file == nil {
		return nil
	}
	return Forget(u.x.root, u.id)
}

// encoder makes records.
type encoder struct {
	hashes map[string][2]uint32 // of the stem and the form of words; 0: no form
	found  []uint32             // the hashes of a text's terms
	terms  []byte
}

// hashesMax is the number of words at which hashes is cleared.
const hashesMax = 1 << 16

// header returns the record of the first line of a session, an empty one if it is not a
// header.
func (e *encoder) header(line []byte) (r record) {
	h, ok := session.ParseHeader(line)
	if !ok {
		return r
	}
	if h.UID >= 0 {
		r.terms = append(binary.LittleEndian.AppendUint32(nil, uint32(h.UID)), 0)
	}
	if r.kind, r.ts = header, h.Created; !h.Recall {
		r.kind = hidden
	}
	return r
}

// document returns the record of a document, without its offset. Its terms are valid
// until the next call.
func (e *encoder) document(d session.Document) (r record) {
	switch r.ts = d.TS; d.Role {
	case proto.RoleUser:
		r.kind = user
	case proto.RoleAssistant:
		r.kind = assistant
	default:
		r.kind = tool
	}
	e.found = e.found[:0]
	index.Split(d.Text, func(w index.Word) {
		r.words++
		hashes := e.hash(w)
		if e.found = append(e.found, hashes[0]); w.Plain {
			e.found = append(e.found, hashes[1])
		}
	})
	slices.Sort(e.found)
	e.terms = e.terms[:0]
	for i := 0; i < len(e.found); {
		h, from := e.found[i], i
		for i < len(e.found) && e.found[i] == h {
			i++
		}
		e.terms = append(binary.LittleEndian.AppendUint32(e.terms, h), byte(min(i-from, 255)))
	}
	r.terms = e.terms
	return r
}

// hash returns the hashes of the stem and the form of a word.
func (e *encoder) hash(w index.Word) [2]uint32 {
	if hashes, ok := e.hashes[string(w.Folded)]; ok {
		return hashes
	}
	if e.hashes == nil || len(e.hashes) >= hashesMax {
		e.hashes = map[string][2]uint32{}
	}
	folded := string(w.Folded)
	hashes := [2]uint32{hashOf(w.Stem()), hashOf("=" + folded)}
	e.hashes[folded] = hashes
	return hashes
}

// hashOf is FNV-1a-32.
func hashOf(term string) uint32 {
	h := uint32(2166136261)
	for i := range len(term) {
		h = (h ^ uint32(term[i])) * 16777619
	}
	return h
}
