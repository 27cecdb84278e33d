package attach

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"zino/pkg/attach/kind"
	"zino/pkg/zinotest"
	"zino/proto"
)

// picture is an image of two colours: red above, blue below.
func picture(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.RGBA{255, 0, 0, 255}
			if y >= h/2 {
				c = color.RGBA{0, 0, 255, 255}
			}
			m.SetRGBA(x, y, c)
		}
	}
	return m
}

func asPNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	zinotest.Must(t, png.Encode(&b, m))
	return b.Bytes()
}

func asJPEG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	zinotest.Must(t, jpeg.Encode(&b, m, nil))
	return b.Bytes()
}

// withEXIF adds a segment with an orientation and a place to a JPEG.
func withEXIF(photo []byte, orientation byte) []byte {
	exif := []byte("Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00" + string([]byte{orientation}) + "\x00\x00\x00\x00\x00\x00GPS 48.2 N 16.4 E")
	segment := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(exif)+2))
	return append(append(append([]byte{}, photo[:2]...), append(segment, exif...)...), photo[2:]...)
}

// withText adds a chunk with a text to a PNG.
func withText(file []byte, text string) []byte {
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	chunk = append(chunk, "tEXt"+text...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	const header = 8 + 25
	return append(append(append([]byte{}, file[:header]...), chunk...), file[header:]...)
}

// claiming is a PNG of a few bytes whose header claims a size.
func claiming(w, h uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, w), h)
	b = append(b, 8, 2, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

const webpDot = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"

func TestPrepare(t *testing.T) {
	dot, err := base64.StdEncoding.DecodeString(webpDot)
	zinotest.Must(t, err)
	small := asPNG(t, picture(40, 20))
	for name, tt := range map[string]struct {
		file          string
		data          []byte
		mediaType     string
		width, height int
		same          bool
	}{
		"a small PNG":            {"shot.png", small, kind.PNG, 40, 20, true},
		"a PNG named .jpg":       {"shot.jpg", small, kind.PNG, 40, 20, true},
		"a PNG with a text":      {"shot.png", withText(small, "Comment\x00secret"), kind.PNG, 40, 20, false},
		"a wide PNG":             {"shot.png", asPNG(t, picture(4000, 100)), kind.PNG, 2000, 50, false},
		"a high JPEG":            {"a.jpeg", asJPEG(t, picture(100, 3000)), kind.JPEG, 66, 2000, false},
		"a JPEG":                 {"a.jpeg", asJPEG(t, picture(30, 30)), kind.JPEG, 30, 30, true},
		"a photo with its place": {"a.jpeg", withEXIF(asJPEG(t, picture(64, 32)), 6), kind.JPEG, 32, 64, false},
		"WebP":                   {"a.webp", dot, kind.WebP, 1, 1, true},
		"a PDF":                  {"a.pdf", []byte("%PDF-1.4\n"), kind.PDF, 0, 0, true},
	} {
		f, a, err := Prepare(proto.FileData{Name: "/home/ada/" + tt.file, Data: tt.data})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a.Name != tt.file || a.MediaType != tt.mediaType || a.Width != tt.width || a.Height != tt.height || a.Bytes != len(f.Data) || a.ID != kind.ID(f.Data) || f.MediaType != tt.mediaType {
			t.Errorf("%s: %+v", name, a)
		}
		if bytes.Equal(f.Data, tt.data) != tt.same {
			t.Errorf("%s: the same bytes: %v", name, !tt.same)
		}
		if bytes.Contains(f.Data, []byte("GPS")) || bytes.Contains(f.Data, []byte("secret")) {
			t.Errorf("%s: metadata remains", name)
		}
	}
}

// TestOrientation checks that a photo is turned as its EXIF says: red stands above in the
// file, and where is on which side it is shown.
func TestOrientation(t *testing.T) {
	photo := asJPEG(t, picture(64, 64))
	for orientation, where := range map[byte]image.Point{1: {32, 4}, 2: {32, 4}, 3: {32, 60}, 4: {32, 60}, 5: {4, 32}, 6: {60, 32}, 7: {60, 32}, 8: {4, 32}} {
		f, _, err := Prepare(proto.FileData{Name: "a.jpg", Data: withEXIF(photo, orientation)})
		zinotest.Must(t, err)
		m, err := jpeg.Decode(bytes.NewReader(f.Data))
		zinotest.Must(t, err)
		if r, _, b, _ := m.At(where.X, where.Y).RGBA(); r < b {
			t.Errorf("orientation %d: no red at %v", orientation, where)
		}
	}
}

// TestFirstFrame checks that an animation becomes an image of its first frame.
func TestFirstFrame(t *testing.T) {
	frame := func(c color.Color) *image.Paletted {
		return image.NewPaletted(image.Rect(0, 0, 8, 8), color.Palette{c})
	}
	var b bytes.Buffer
	zinotest.Must(t, gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{frame(color.RGBA{255, 0, 0, 255}), frame(color.RGBA{0, 0, 255, 255})}, Delay: []int{1, 1}}))
	f, a, err := Prepare(proto.FileData{Name: "a.gif", Data: b.Bytes()})
	zinotest.Must(t, err)
	m, err := png.Decode(bytes.NewReader(f.Data))
	zinotest.Must(t, err)
	if r, _, blue, _ := m.At(4, 4).RGBA(); a.MediaType != kind.PNG || r == 0 || blue != 0 {
		t.Errorf("%+v, %d, %d", a, r, blue)
	}
}

// TestTooManyBytes checks that an image whose pixels do not compress is sent smaller.
func TestTooManyBytes(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 2000, 1500))
	noise := rand.New(rand.NewPCG(1, 2))
	for i := range m.Pix {
		m.Pix[i] = byte(noise.Uint32())
	}
	f, a, err := Prepare(proto.FileData{Name: "noise.png", Data: asPNG(t, m)})
	if err != nil || len(f.Data) > proto.AttachmentImageMax || a.Width < 200 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestRefused(t *testing.T) {
	small := asPNG(t, picture(40, 20))
	for want, data := range map[string][]byte{
		"x.png has 12000x9000 pixels; at most 50 million are taken": claiming(12000, 9000),
		"x.png is damaged: its header names no width and height":    claiming(0, 1),
		"x.png cannot be decoded: ":                                 claiming(7000, 7000),
		"x.png is not a PNG, JPEG, GIF, WebP or PDF file":           []byte("a text"),
		"x.png has 65 MiB; at most 64 are taken":                    make([]byte, 65<<20),
		"x.png has 10485765 bytes; at most 10485760 are taken":      append([]byte("%PDF-"), make([]byte, 10<<20)...),
	} {
		_, _, err := Prepare(proto.FileData{Name: "x.png", Data: data})
		if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, proto.ErrInvalid) && !errors.Is(err, proto.ErrTooLarge) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for n := range small { // cut off anywhere
		if _, _, err := Prepare(proto.FileData{Name: "x.png", Data: small[:n]}); err == nil && n < len(small)-12 {
			t.Errorf("%d of %d bytes are accepted", n, len(small))
		}
	}
}

func FuzzPrepare(f *testing.F) {
	f.Add(asPNG(f, picture(4, 4)))
	f.Add(withEXIF(asJPEG(f, picture(4, 4)), 6))
	f.Add([]byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if info, ok := kind.Of(data); ok && info.Width*info.Height > 1<<20 {
			return // slow
		}
		got, a, err := Prepare(proto.FileData{Name: "x", Data: data})
		if err != nil {
			return
		}
		info, ok := kind.Of(got.Data)
		if !ok || info.MediaType != a.MediaType || a.MediaType != kind.PDF && (a.Width < 1 || a.Height < 1 || a.Width > kind.EdgeMax || a.Height > kind.EdgeMax) {
			t.Fatalf("%+v, %+v", info, a)
		}
	})
}
