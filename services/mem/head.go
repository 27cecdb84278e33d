package mem

import (
	"crypto/sha256"
	"encoding/binary"
)

// appendHead appends all of a catalog but its index, in the form that
// parseHead reads. print is the hash of the memories up to c.end.
func (c *catalog) appendHead(b, print []byte) []byte {
	b = append(b, print...)
	for _, n := range []int{int(c.end), c.elements, c.skipped, len(c.names.list), len(c.docs)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = appendText(b, c.reason)
	for _, name := range c.names.list {
		b = appendText(b, name)
	}
	at := int64(0)
	for i := range c.docs {
		b, at = c.docs[i].append(b, at)
	}
	return b
}

// append appends a memory. Its place is told as the distance from the one
// before.
func (d *doc) append(b []byte, before int64) ([]byte, int64) {
	if !d.occupied {
		return append(b, 0), before
	}
	b = append(b, 1)
	b = binary.AppendVarint(b, d.at-before)
	b = binary.AppendUvarint(b, uint64(d.size))
	b = binary.LittleEndian.AppendUint32(b, d.sum)
	b = binary.LittleEndian.AppendUint64(b, uint64(d.created))
	b = binary.AppendUvarint(b, uint64(d.tag))
	b = binary.AppendUvarint(b, uint64(d.channel))
	return append(b, d.print[:]...), d.at
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// parseHead reads what appendHead wrote.
func parseHead(head []byte) (c *catalog, print []byte, err error) {
	c = newCatalog(nil)
	d := headReader{rest: head}
	print = d.bytes(sha256.Size)
	c.end, c.elements, c.skipped = int64(d.uvarint()), int(d.uvarint()), int(d.uvarint())
	names, docs := d.count(1), d.count(1)
	c.saved = c.elements
	c.reason = string(d.bytes(d.count(1)))
	for range names {
		c.names.number(string(d.bytes(d.count(1))))
	}
	if len(c.names.list) != names {
		d.failed = true
	}
	c.docs = make([]doc, docs)
	at := int64(0)
	for i := range c.docs {
		c.docs[i].read(&d, &at, uint64(names))
		c.number(i)
	}
	if d.failed || len(d.rest) > 0 {
		return nil, nil, errDamagedSnapshot
	}
	return c, print, nil
}

// number notes the fingerprint of a memory.
func (c *catalog) number(id int) {
	d := &c.docs[id]
	if !d.occupied {
		return
	}
	if _, known := c.first[d.print]; known {
		c.twins++
	} else {
		c.first[d.print] = int32(id)
	}
}

func (d *doc) read(r *headReader, at *int64, names uint64) {
	if flag := r.bytes(1); r.failed || flag[0] == 0 {
		return
	}
	*at += r.varint()
	d.at, d.size = *at, uint32(r.uvarint())
	d.sum, d.created = binary.LittleEndian.Uint32(r.bytes(4)), int64(binary.LittleEndian.Uint64(r.bytes(8)))
	tag, channel := r.uvarint(), r.uvarint()
	if tag >= names || channel >= names || d.at < 0 {
		r.failed = true
	}
	d.tag, d.channel = uint32(tag), uint32(channel)
	copy(d.print[:], r.bytes(len(d.print)))
	d.occupied = true
}

// headReader reads numbers and texts. After a failure it gives zeros.
type headReader struct {
	rest   []byte
	failed bool
}

func (d *headReader) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *headReader) varint() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count is a number of things that take at least so many bytes each.
func (d *headReader) count(each int) int {
	n := d.uvarint()
	if n > uint64(len(d.rest)/each) {
		d.failed, d.rest = true, nil
		return 0
	}
	return int(n)
}

func (d *headReader) bytes(n int) []byte {
	if n > len(d.rest) {
		d.failed, d.rest = true, nil
		return make([]byte, n)
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}
