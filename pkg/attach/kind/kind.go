// Package kind recognizes images and PDF files by their first bytes, and reads the
// dimensions of images. It decodes no pixel: services and clients that only carry files
// link it, and not the decoders of pkg/attach.
package kind

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"zino/pkg/text"
	"zino/proto"
)

// Media types.
const (
	PNG  = "image/png"
	JPEG = "image/jpeg"
	GIF  = "image/gif"
	WebP = "image/webp"
	PDF  = "application/pdf"
	Text = "text/plain" // of a result that is too long: see TextReference
)

// PixelsMax is the largest number of pixels of an image.
const PixelsMax = 50_000_000

// EdgeMax is the largest width and height that is sent, in pixels.
const EdgeMax = 2000

// Info describes a file.
type Info struct {
	MediaType     string // one of the constants
	Width, Height int    // in pixels; 0 for a PDF
	Metadata      bool   // it has EXIF, XMP, IPTC or comments, or may have
	Orientation   int    // the orientation of EXIF, 1 to 8; 0: unknown
}

// IsImage reports whether the file is not a PDF.
func (i Info) IsImage() bool { return i.MediaType != PDF }

// Of recognizes data. ok is false for content of another kind. The dimensions are 0 if
// the header is damaged.
func Of(data []byte) (info Info, ok bool) {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return png(data), true
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return jpeg(data), true
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		info = Info{MediaType: GIF, Metadata: true}
		if len(data) >= 10 {
			info.Width, info.Height = int(binary.LittleEndian.Uint16(data[6:])), int(binary.LittleEndian.Uint16(data[8:]))
		}
		return info, true
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return webp(data), true
	case bytes.HasPrefix(data, []byte("%PDF-")):
		return Info{MediaType: PDF, Metadata: true}, true
	}
	return Info{}, false
}

// Check recognizes data and checks its pixels, before anything is decoded. name is the
// file's name for errors.
func Check(name string, data []byte) (Info, error) {
	info, ok := Of(data)
	switch {
	case !ok:
		return info, invalid("%s is not a PNG, JPEG, GIF, WebP or PDF file", shown(name))
	case !info.IsImage():
		return info, nil
	case info.Width <= 0 || info.Height <= 0:
		return info, invalid("%s is damaged: its header names no width and height", shown(name))
	case int64(info.Width)*int64(info.Height) > PixelsMax:
		return info, invalid("%s has %dx%d pixels; at most 50 million are taken", shown(name), info.Width, info.Height)
	}
	return info, nil
}

// Reference checks a file as it is stored, and returns the reference to it.
func Reference(name string, data []byte) (proto.Attachment, error) {
	info, err := Check(name, data)
	if err != nil {
		return proto.Attachment{}, err
	}
	limit := proto.AttachmentImageMax
	if !info.IsImage() {
		limit = proto.AttachmentPDFMax
	}
	if len(data) > limit {
		return proto.Attachment{}, &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("%s has %d bytes; at most %d are taken", shown(name), len(data), limit)}
	}
	return proto.Attachment{ID: ID(data), Name: Name(name), MediaType: info.MediaType, Bytes: len(data), Width: info.Width, Height: info.Height}, nil
}

// TextReference checks a text as it is stored, and returns the reference to it.
func TextReference(name string, data []byte) (proto.Attachment, error) {
	if len(data) > proto.AttachmentTextMax {
		return proto.Attachment{}, &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("%s has %d bytes; at most %d are taken", shown(name), len(data), proto.AttachmentTextMax)}
	}
	if _, ok := Of(data); ok || !utf8.Valid(data) {
		return proto.Attachment{}, invalid("%s is not a text in UTF-8", shown(name))
	}
	return proto.Attachment{ID: ID(data), Name: Name(name), MediaType: Text, Bytes: len(data)}, nil
}

// ID returns the id of an attachment with this content.
func ID(data []byte) string {
	sum := sha256.Sum256(data)
	return idStart + hex.EncodeToString(sum[:])
}

const idStart = "sha256:"

// Sum returns the hexadecimal part of an id. ok is false if id is not one.
func Sum(id string) (sum string, ok bool) {
	sum, ok = strings.CutPrefix(id, idStart)
	if !ok || len(sum) != 2*sha256.Size {
		return "", false
	}
	for i := range len(sum) {
		if c := sum[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	return sum, true
}

// nameMax is the length of a stored name in bytes.
const nameMax = 200

// Name returns a file's name without directories, on one line, as it is stored.
func Name(name string) string {
	name = text.OneLine(strings.ToValidUTF8(name[strings.LastIndexByte(name, '/')+1:], "\ufffd"))
	if len(name) > nameMax {
		name = strings.ToValidUTF8(name[len(name)-nameMax:], "")
	}
	return name
}

// Tokens estimates the tokens of an attachment, as providers count those of images.
func Tokens(a proto.Attachment) int {
	const most = 1600
	if a.MediaType == PDF { // a page has about 50 KB
		return max(1, a.Bytes/50_000) * most
	}
	if a.Width <= 0 || a.Height <= 0 {
		return most
	}
	return min(most, max(1, a.Width*a.Height/750))
}

func shown(name string) string {
	if name = Name(name); name == "" {
		return "the file"
	}
	return name
}

func invalid(format string, args ...any) error {
	return proto.Errorf(proto.CodeInvalid, format, args...)
}

// png reads the header and looks for chunks with text.
func png(data []byte) Info {
	info := Info{MediaType: PNG}
	const head = 8
	if len(data) < head+8+8 || string(data[head+4:head+8]) != "IHDR" {
		return info
	}
	info.Width, info.Height = edge(data[head+8:]), edge(data[head+12:])
	for rest := data[head:]; len(rest) >= 12; {
		n := uint64(binary.BigEndian.Uint32(rest))
		switch string(rest[4:8]) {
		case "eXIf", "tEXt", "zTXt", "iTXt", "tIME":
			info.Metadata = true
			return info
		}
		if n+12 > uint64(len(rest)) {
			break
		}
		rest = rest[n+12:]
	}
	return info
}

// edge reads a width or height of a PNG; 0 if it is out of range.
func edge(b []byte) int {
	if n := binary.BigEndian.Uint32(b); n <= 1<<31-1 {
		return int(n)
	}
	return 0
}

// jpeg walks the segments up to the start of the scan, as the decoder does: it skips bytes
// between segments. Width and height are the largest that a segment names.
func jpeg(data []byte) Info {
	info := Info{MediaType: JPEG}
	for i := 2; ; {
		for i < len(data) && data[i] != 0xff {
			i++
		}
		for i+1 < len(data) && data[i+1] == 0xff { // fill bytes
			i++
		}
		if i+4 > len(data) {
			return info
		}
		marker := data[i+1]
		if i += 2; marker <= 0x01 || marker >= 0xd0 && marker <= 0xd8 { // without a length
			continue
		}
		n := int(binary.BigEndian.Uint16(data[i:]))
		if marker == 0xd9 || marker == 0xda || n < 2 { // the end, or the scan
			return info
		}
		body := data[i+2 : max(i+2, min(len(data), i+n))]
		switch {
		case marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc:
			if len(body) >= 5 {
				info.Height = max(info.Height, int(binary.BigEndian.Uint16(body[1:])))
				info.Width = max(info.Width, int(binary.BigEndian.Uint16(body[3:])))
			}
		case marker == 0xe1:
			info.Metadata = true
			if exif, ok := bytes.CutPrefix(body, []byte("Exif\x00\x00")); ok && info.Orientation == 0 {
				info.Orientation = orientation(exif)
			}
		case marker == 0xfe, marker > 0xe2 && marker <= 0xef && marker != 0xee:
			info.Metadata = true // a comment, IPTC, or data of the camera's maker
		}
		i += n
	}
}

// orientation reads the orientation in the first directory of EXIF data; 0 if it has
// none.
func orientation(exif []byte) int {
	if len(exif) < 8 {
		return 0
	}
	var order binary.ByteOrder
	switch string(exif[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 0
	}
	at := uint64(order.Uint32(exif[4:]))
	if at+2 > uint64(len(exif)) {
		return 0
	}
	entries := exif[at+2:]
	const size, tag, short = 12, 0x0112, 3
	for range order.Uint16(exif[at:]) {
		if len(entries) < size {
			return 0
		}
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short {
			if v := int(order.Uint16(entries[8:])); v >= 1 && v <= 8 {
				return v
			}
			return 0
		}
		entries = entries[size:]
	}
	return 0
}

// webp walks the chunks. Width and height are the largest that a chunk names: decoders
// use those of the bitstream, not those of the canvas.
func webp(data []byte) Info {
	info := Info{MediaType: WebP}
	grow := func(w, h int) { info.Width, info.Height = max(info.Width, w), max(info.Height, h) }
	for rest := data[12:]; len(rest) >= 8; {
		n := uint64(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[8:min(uint64(len(rest)), 8+n)]
		switch string(rest[:4]) {
		case "VP8X":
			if len(body) >= 10 {
				grow(1+int(uint32(body[4])|uint32(body[5])<<8|uint32(body[6])<<16), 1+int(uint32(body[7])|uint32(body[8])<<8|uint32(body[9])<<16))
				info.Metadata = info.Metadata || body[0]&0x0e != 0 // EXIF, XMP, animation
			}
		case "VP8 ":
			if len(body) >= 10 && string(body[3:6]) == "\x9d\x01\x2a" {
				grow(int(binary.LittleEndian.Uint16(body[6:])&0x3fff), int(binary.LittleEndian.Uint16(body[8:])&0x3fff))
			}
		case "VP8L":
			if len(body) >= 5 && body[0] == 0x2f {
				bits := binary.LittleEndian.Uint32(body[1:])
				grow(1+int(bits&0x3fff), 1+int(bits>>14&0x3fff))
			}
		case "EXIF", "XMP ":
			info.Metadata = true
		}
		if n += n & 1; 8+n > uint64(len(rest)) {
			break
		}
		rest = rest[8+n:]
	}
	return info
}
