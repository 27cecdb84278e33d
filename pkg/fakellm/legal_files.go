package fakellm

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Limits of the providers for images and PDF files.
const (
	anthropicImage  = 5 << 20  // bytes of an image in base64
	anthropicImages = 100      // in a request
	anthropicBody   = 32 << 20 // bytes
	geminiBody      = 20 << 20
	openaiBody      = 50 << 20
	openaiImages    = 500
)

const pdfType = "application/pdf"

// legalBytes checks the content of a file in base64: it is of the media type that it is
// sent with, which providers look at.
func legalBytes(mediaType, data string, pdf bool) error {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil || len(raw) == 0 {
		return errors.New("not base64")
	}
	is, _, _ := strings.Cut(http.DetectContentType(raw), ";")
	switch {
	case is != mediaType:
		return fmt.Errorf("%s is sent as %q", is, mediaType)
	case pdf != (is == pdfType), !pdf && !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, is):
		return fmt.Errorf("%s in this place", is)
	}
	return nil
}

// legalURL checks a data URL.
func legalURL(url string, pdf bool) error {
	mediaType, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if !ok || !strings.HasPrefix(url, "data:") {
		return errors.New("neither a data URL nor in base64")
	}
	return legalBytes(mediaType, data, pdf)
}

// legalAnthropicFile checks a block of the type image or document.
func legalAnthropicFile(typ string, source json.RawMessage) error {
	var s struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	}
	if json.Unmarshal(source, &s) != nil || s.Type != "base64" {
		return fmt.Errorf("%s: needs a source of the type base64", typ)
	}
	if typ == "image" && len(s.Data) > anthropicImage {
		return fmt.Errorf("image exceeds 5 MB maximum: %d bytes > %d bytes", len(s.Data), anthropicImage)
	}
	if err := legalBytes(s.MediaType, s.Data, typ == "document"); err != nil {
		return fmt.Errorf("%s: %w", typ, err)
	}
	return nil
}

// openaiPart is a part of a content on OpenAI's wires.
type openaiPart struct {
	Type     string          `json:"type"`
	Text     *string         `json:"text"`
	ImageURL json.RawMessage `json:"image_url"`
	File     struct {
		Filename string `json:"filename"`
		FileData string `json:"file_data"`
	} `json:"file"`
	Filename string `json:"filename"`
	FileData string `json:"file_data"`
}

// check checks a part of chat completions. Files are the user's.
func (p openaiPart) check(role string) error {
	switch p.Type {
	case "text":
		if p.Text == nil {
			return errors.New("needs a text")
		}
		return nil
	case "image_url":
		var image struct {
			URL string `json:"url"`
		}
		if json.Unmarshal(p.ImageURL, &image) != nil || role != user {
			return errors.New("image_url is an object with a url, of the user")
		}
		return legalURL(image.URL, false)
	case "file":
		if p.File.Filename == "" || role != user {
			return errors.New("file needs a filename, and the role user")
		}
		return legalURL(p.File.FileData, true)
	}
	return fmt.Errorf("unknown type %q", p.Type)
}

// checkItem checks a part of Responses.
func (p openaiPart) checkItem(role, text string) error {
	switch {
	case p.Type == text:
		if p.Text == nil {
			return errors.New("needs a text")
		}
		return nil
	case p.Type == "input_image" && role == user:
		if !isText(p.ImageURL) {
			return errors.New("image_url is a text")
		}
		return legalURL(plain(p.ImageURL), false)
	case p.Type == "input_file" && role == user:
		if p.Filename == "" {
			return errors.New("input_file needs a filename")
		}
		return legalURL(p.FileData, true)
	}
	return fmt.Errorf("the type %q of the role %s", p.Type, role)
}

// legalInline checks inlineData of Gemini.
func legalInline(raw json.RawMessage) error {
	var d struct {
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
	}
	if json.Unmarshal(raw, &d) != nil {
		return errors.New("inlineData is not an object")
	}
	return legalBytes(d.MimeType, d.Data, d.MimeType == pdfType)
}

// legalOllamaImages checks the images of a message.
func legalOllamaImages(role string, images []string) error {
	for i, data := range images {
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil || !strings.HasPrefix(http.DetectContentType(raw), "image/") || role != user {
			return fmt.Errorf("images[%d]: needs an image in base64, in a message of the user", i)
		}
	}
	return nil
}
