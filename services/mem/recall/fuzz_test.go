package recall

import (
	"bytes"
	"testing"
)

// FuzzParse checks that the valid part of any file is a prefix of it with valid records.
func FuzzParse(f *testing.F) {
	e := new(encoder)
	head := e.header([]byte(`{"type":"meta","ts":"` + noon + `","uid":1000}`))
	one := appendRecord(nil, 0, head)
	r := e.document(documentOf("the printers of 日本語"))
	r.offset = 70
	two := appendRecord(nil, 0, r)
	file := appendBatch(appendBatch([]byte(magic), one, &state{end: 70}), two, &state{end: 200, size: 200, mtime: 5, inode: 6})
	f.Add([]byte{})
	f.Add([]byte(magic))
	f.Add(file)
	f.Add(file[:len(file)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		img := parse(data)
		if !bytes.HasPrefix(data, img.data) {
			t.Fatalf("%x is not a prefix of %x", img.data, data)
		}
		last := int64(0)
		for r := range img.records() {
			if r.offset < last || r.offset >= img.state.end || r.kind < header || r.kind > tool || len(r.terms)%termSize != 0 {
				t.Fatalf("record %+v behind %d in %+v", r, last, img.state)
			}
			last = r.offset
		}
		if last != img.last {
			t.Fatalf("the last record is at %d, not at %d", last, img.last)
		}
		if again := parse(img.data); !bytes.Equal(again.data, img.data) || again.state != img.state {
			t.Fatalf("parsed again: %+v, not %+v", again, img)
		}
		for payload := data; len(payload) > 0; { // records without a checksum
			_, n := parseRecord(payload, last)
			if n == 0 {
				break
			}
			payload = payload[n:]
		}
	})
}
