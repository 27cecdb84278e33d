package kind_test

import (
	"bytes"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/attach/kind"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestOf(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 300, 200))
	var p, j, g bytes.Buffer
	zinotest.Must(t, png.Encode(&p, m))
	zinotest.Must(t, jpeg.Encode(&j, m, nil))
	zinotest.Must(t, gif.Encode(&g, m, nil))
	exif := func(orientation string) string {
		return "\xff\xd8\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00" + orientation + "\x00\x00\x00\x00\x00\x00\x00"
	}
	for data, want := range map[string]kind.Info{
		p.String():          {kind.PNG, 300, 200, false, 0},
		j.String():          {kind.JPEG, 300, 200, false, 0},
		g.String():          {kind.GIF, 300, 200, true, 0},
		"%PDF-1.7":          {kind.PDF, 0, 0, true, 0},
		exif("\x06"):        {kind.JPEG, 0, 0, true, 6},
		exif("\x09"):        {kind.JPEG, 0, 0, true, 0},
		"\xff\xd8\xff\xe1":  {kind.JPEG, 0, 0, false, 0},
		"\x89PNG\r\n\x1a\n": {kind.PNG, 0, 0, false, 0},
		// Bytes between segments hide no size, and neither does a second frame.
		"\xff\xd8\xff\x00\x00x\xff\xc0\x00\x0b\x08\x27\x10\x27\x10\x01\x01\x11\x00\xff\xc0\x00\x0b\x08\x00\x01\x00\x01\x01\x01\x11\x00\xff\xd9": {kind.JPEG, 10000, 10000, false, 0},
		"GIF89a": {kind.GIF, 0, 0, true, 0},
		"RIFF\x00\x00\x00\x00WEBPVP8L\x05\x00\x00\x00\x2f\xc7\x40\x09\x00":                                                             {kind.WebP, 200, 38, false, 0},
		"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x08\x00\x00\x00\xff\x00\x00\x7f\x00\x00":                                         {kind.WebP, 256, 128, true, 0},
		"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00VP8L\x05\x00\x00\x00\x2f\xff\xff\xff\xff": {kind.WebP, 16384, 16384, false, 0},
	} {
		if got, ok := kind.Of([]byte(data)); !ok || got != want {
			t.Errorf("%.20q: %+v, %v; want %+v", data, got, ok, want)
		}
	}
	for _, data := range []string{"", "text", "<svg>", "GIF", "RIFF\x00\x00\x00\x00WAVE", "\x89PNG", "BM"} {
		if got, ok := kind.Of([]byte(data)); ok {
			t.Errorf("%q: %+v", data, got)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"/a/b.png": "b.png", "b\n.png": "b .png", "": "", strings.Repeat("ü", 150): strings.Repeat("ü", 100),
	} {
		zinotest.Equal(t, "name", kind.Name(name), want)
	}
	if name := kind.Name("a\x1b[31m\xff.png"); strings.Contains(name, "\x1b") || !utf8.ValidString(name) {
		t.Errorf("%q", name)
	}
}

func TestTokens(t *testing.T) {
	for want, a := range map[int]proto.Attachment{
		1365: {MediaType: kind.PNG, Width: 1280, Height: 800},
		1600: {MediaType: kind.PNG, Width: 2000, Height: 2000},
		1:    {MediaType: kind.PNG, Width: 2, Height: 1},
		3200: {MediaType: kind.PDF, Bytes: 100_000},
	} {
		if got := kind.Tokens(a); got != want {
			t.Errorf("%+v: %d, want %d", a, got, want)
		}
	}
}

// FuzzOf checks that the readers of headers find no dimensions that the decoders of the
// standard library do not find, and do not fail.
func FuzzOf(f *testing.F) {
	m := image.NewGray(image.Rect(0, 0, 3, 2))
	var p, j, g bytes.Buffer
	zinotest.Must(f, png.Encode(&p, m))
	zinotest.Must(f, jpeg.Encode(&j, m, nil))
	zinotest.Must(f, gif.Encode(&g, m, nil))
	for _, seed := range [][]byte{p.Bytes(), j.Bytes(), g.Bytes(), []byte("RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x08\x00\x00\x00\xff\x00\x00\x7f\x00\x00")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		info, ok := kind.Of(data)
		if !ok {
			return
		}
		if info.Width < 0 || info.Height < 0 || info.Orientation < 0 || info.Orientation > 8 {
			t.Fatalf("%+v", info)
		}
		config, _, err := image.DecodeConfig(bytes.NewReader(data))
		if err == nil && info.MediaType != kind.WebP && (config.Width > info.Width || config.Height > info.Height) {
			t.Fatalf("%+v: the decoder finds %dx%d", info, config.Width, config.Height)
		}
	})
}
