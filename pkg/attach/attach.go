// Package attach prepares images and PDF files for a model: it recognizes them by their
// content, checks their limits before it decodes them, scales what is too large for
// providers, and drops EXIF and other metadata.
package attach

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"sync"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"

	"zino/pkg/attach/kind"
	"zino/proto"
)

const (
	// FileMax is the size up to which a file is looked at, in bytes.
	FileMax = 64 << 20
	// quality is that of JPEG.
	quality = 85
)

// decoding is locked while an image is decoded: one of 50 million pixels takes up to 400
// MB.
var decoding sync.Mutex

// Prepare returns a file as a model gets it, and the reference to it. An image that is
// too large in bytes or pixels is scaled. One with metadata is encoded anew without it,
// turned as its EXIF says. Of a GIF it is the first frame. Every image is decoded once, so
// that no provider gets a damaged one. The error is of code invalid or too_large, and
// begins with the file's name.
func Prepare(file proto.FileData) (proto.FileData, proto.Attachment, error) {
	name := kind.Name(file.Name)
	if name == "" {
		name = "file"
	}
	if len(file.Data) > FileMax {
		return file, proto.Attachment{}, proto.Errorf(proto.CodeTooLarge, "%s has %d MiB; at most %d are taken", name, len(file.Data)>>20, FileMax>>20)
	}
	info, err := kind.Check(name, file.Data)
	if err == nil && info.IsImage() {
		file.Data, err = prepared(name, file.Data, info)
	}
	if err != nil {
		return file, proto.Attachment{}, err
	}
	file.Name = name
	a, err := kind.Reference(name, file.Data)
	file.MediaType = a.MediaType
	return file, a, err
}

// prepared returns an image as it is sent.
func prepared(name string, data []byte, info kind.Info) ([]byte, error) {
	decoding.Lock()
	defer decoding.Unlock()
	m, err := decode(data, info.MediaType)
	if err != nil {
		return nil, proto.Errorf(proto.CodeInvalid, "%s cannot be decoded: %v", name, err)
	}
	b := m.Bounds()
	large := len(data) > proto.AttachmentImageMax || b.Dx() > kind.EdgeMax || b.Dy() > kind.EdgeMax
	if !large && !info.Metadata {
		return data, nil
	}
	edge := kind.EdgeMax
	for {
		small := turned(scaled(m, edge), info.Orientation)
		encoded, err := encode(small, info.MediaType)
		if err != nil {
			return nil, proto.Errorf(proto.CodeInvalid, "%s cannot be encoded: %v", name, err)
		}
		if len(encoded) <= proto.AttachmentImageMax {
			return encoded, nil
		}
		edge = min(edge, max(b.Dx(), b.Dy())) * 3 / 4
	}
}

func decode(data []byte, mediaType string) (m image.Image, err error) {
	defer func() { // a decoder that fails on a damaged file must not end the service
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder failed: %v", p)
		}
	}()
	r := bytes.NewReader(data)
	switch mediaType {
	case kind.PNG:
		return png.Decode(r)
	case kind.JPEG:
		return jpeg.Decode(r)
	case kind.GIF:
		return gif.Decode(r)
	}
	return webp.Decode(r)
}

// scaled returns an image whose edges are at most edge long.
func scaled(m image.Image, edge int) image.Image {
	b := m.Bounds()
	longest := max(b.Dx(), b.Dy())
	if longest <= edge {
		return m
	}
	to := image.NewRGBA(image.Rect(0, 0, max(1, b.Dx()*edge/longest), max(1, b.Dy()*edge/longest)))
	draw.BiLinear.Scale(to, to.Bounds(), m, b, draw.Src, nil)
	return to
}

// turned returns an image as an orientation of EXIF, 1 to 8, has it shown.
func turned(m image.Image, orientation int) image.Image {
	if orientation < 2 || orientation > 8 {
		return m
	}
	b := m.Bounds()
	w, h := b.Dx(), b.Dy()
	size := image.Rect(0, 0, w, h)
	if orientation >= 5 {
		size = image.Rect(0, 0, h, w)
	}
	to := image.NewRGBA(size)
	for y := range h {
		for x := range w {
			p := [...]image.Point{
				2: {w - 1 - x, y}, 3: {w - 1 - x, h - 1 - y}, 4: {x, h - 1 - y},
				5: {y, x}, 6: {h - 1 - y, x}, 7: {h - 1 - y, w - 1 - x}, 8: {y, w - 1 - x},
			}[orientation]
			to.Set(p.X, p.Y, m.At(b.Min.X+x, b.Min.Y+y))
		}
	}
	return to
}

// encode encodes a photo as JPEG, and anything else as PNG, or as JPEG if that is too
// large.
func encode(m image.Image, from string) ([]byte, error) {
	var b bytes.Buffer
	if from != kind.JPEG {
		if err := png.Encode(&b, m); err != nil || b.Len() <= proto.AttachmentImageMax {
			return b.Bytes(), err
		}
		b.Reset()
		flat := image.NewRGBA(m.Bounds()) // JPEG has no transparency
		draw.Draw(flat, flat.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
		draw.Draw(flat, flat.Bounds(), m, m.Bounds().Min, draw.Over)
		m = flat
	}
	err := jpeg.Encode(&b, m, &jpeg.Options{Quality: quality})
	return b.Bytes(), err
}
