package wire

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"zino/pkg/attach/kind"
	"zino/pkg/wire"
	"zino/proto"
)

// File is an attachment of a message.
type File struct {
	proto.Attachment
	// Data are the bytes; nil until Fill.
	Data []byte
	// Left is why the model is not sent the file; "" if it is.
	Left string
}

// title names the file for a model and for people.
func (f File) title() string {
	name := f.Name
	if name == "" {
		name = strings.TrimPrefix(f.ID, "sha256:")[:8]
	}
	if f.MediaType == kind.PDF {
		return "file " + name
	}
	return "image " + name
}

// isPDF reports whether the file is not an image.
func (f File) isPDF() bool { return f.MediaType == kind.PDF }

// url returns the content as a data URL.
func (f File) url() string {
	return "data:" + f.MediaType + ";base64," + base64.StdEncoding.EncodeToString(f.Data)
}

// readFiles returns the attachments in a content that is a list.
func readFiles(content []byte) (files []File, err error) {
	if len(content) == 0 || content[0] != '[' {
		return nil, nil
	}
	for part := range wire.Items(content) {
		if stringOf(memberOf(part, "type")) != proto.TypeAttachment {
			continue
		}
		var f File
		if err := wire.DecodeReply(part, &f.Attachment); err != nil {
			return nil, invalid("an attachment: %v", err)
		}
		if _, ok := kind.Sum(f.ID); !ok {
			return nil, invalid("an attachment has the id %.80q", f.ID)
		}
		files = append(files, f)
	}
	return files, nil
}

// fileLimits are what a wire accepts in a request.
type fileLimits struct {
	count    int  // attachments
	bytes    int  // of all of them in base64, with room for the rest of the body
	pdf      bool // PDF files
	inResult bool // attachments in the results of tools
}

// limitsOfFiles are the limits by wire. Sources: platform.claude.com/docs/en/build-with-
// claude/vision (100 images, 32 MB), platform.openai.com/docs/guides/images-vision (500
// images, 50 MB), ai.google.dev/gemini-api/docs/image-understanding (20 MB inline).
// OpenRouter passes a request on to providers with other limits: those of Anthropic hold.
// The bytes of a request fit into what rtr keeps.
var limitsOfFiles = map[string]fileLimits{
	"anthropic":  {100, 28 << 20, true, true},
	"openai":     {500, 44 << 20, true, false},
	"responses":  {500, 44 << 20, true, false},
	"openrouter": {100, 28 << 20, true, false},
	"gemini":     {3000, 18 << 20, true, false},
	"ollama":     {500, 44 << 20, false, false},
}

// HasFiles reports whether a message of a conversation has attachments.
func HasFiles(list []Message) bool {
	return slices.ContainsFunc(list, func(m Message) bool { return len(m.Files) > 0 })
}

// FitFiles returns a conversation of which the attachments that are beyond the limits of a
// wire are left out, the oldest first, and their number. A model without images, or a wire
// without PDF files, is an error for a file of the user; one in the result of a tool is
// left out. The caller's list is not changed.
func FitFiles(list []Message, wire, model string, images bool) (fitted []Message, left int, err error) {
	limits := limitsOfFiles[wire]
	fitted = slices.Clone(list)
	count, size := 0, 0
	for i, m := range slices.Backward(fitted) {
		if len(m.Files) == 0 {
			continue
		}
		m.Files = slices.Clone(m.Files)
		for j := range slices.Backward(m.Files) {
			f := &m.Files[j]
			takes, what := images, "images"
			if f.isPDF() {
				takes, what = images && limits.pdf, "PDF files"
			}
			encoded := base64.StdEncoding.EncodedLen(f.Bytes)
			switch {
			case f.Left != "":
			case !takes && m.Role != "tool":
				return nil, 0, &proto.Error{Code: proto.CodeInvalid, Message: model + " takes no " + what + ": use another model, or a session without " + shownName(f)}
			case !takes:
				f.Left = "left out: " + model + " takes no " + what
			case count+1 > limits.count || size+encoded > limits.bytes:
				f.Left, count, left = "left out", limits.count, left+1 // and all before it
			default:
				count, size = count+1, size+encoded
			}
		}
		fitted[i] = m
	}
	return fitted, left, nil
}

func shownName(f *File) string {
	_, name, _ := strings.Cut(f.title(), " ")
	return name
}

// Fill sets the bytes of the attachments that are sent, and returns the ids of those that
// get does not know, each once. Of one that is lost get returns no bytes. The caller has
// the list from FitFiles.
func Fill(list []Message, get func(id string) (data []byte, known bool)) (unknown []string) {
	for _, m := range list {
		for i := range m.Files {
			f := &m.Files[i]
			if f.Left != "" {
				continue
			}
			data, known := get(f.ID)
			switch {
			case !known && !slices.Contains(unknown, f.ID):
				unknown = append(unknown, f.ID)
			case known && data == nil:
				f.Left = "lost: its file is missing or damaged"
			case known:
				f.Data = data
				if info, ok := kind.Of(data); ok {
					f.MediaType = info.MediaType
				}
			}
		}
	}
	return unknown
}

// FileTokens estimates the tokens of the attachments that are sent.
func FileTokens(list []Message) (tokens int64) {
	for _, m := range list {
		for _, f := range m.Files {
			if f.Left == "" {
				tokens += int64(kind.Tokens(f.Attachment))
			}
		}
	}
	return tokens
}

// PlaceFiles returns a conversation in the form that the bodies of requests are made of:
// what is left out stands in the text, and unless a wire takes attachments in results of
// tools, these are named in the result and follow in a message of the user after the last
// result.
func PlaceFiles(list []Message, wire string, native bool) []Message {
	if !HasFiles(list) {
		return list
	}
	inResult := limitsOfFiles[wire].inResult && native
	out := make([]Message, 0, len(list)+4)
	var moved []File // from the results that stand last in out
	flush := func() {
		if len(moved) == 0 {
			return
		}
		var text strings.Builder
		text.WriteString("[")
		for i, f := range moved {
			if i > 0 {
				text.WriteString(", ")
			}
			text.WriteString(f.title())
		}
		out = append(out, Message{Role: "user", Text: text.String() + " of the tool's result]", Files: moved})
		moved = nil
	}
	for _, m := range list {
		if m.Role != "tool" {
			flush()
		}
		if len(m.Files) == 0 {
			out = append(out, m)
			continue
		}
		placed := Message{Role: m.Role, Text: m.Said(), Calls: m.Calls, CallID: m.CallID, Failed: m.Failed, State: m.State}
		var lines, names []string
		for _, f := range m.Files {
			switch {
			case f.Left != "":
				lines = append(lines, "["+f.title()+" "+f.Left+"]")
			case m.Role == "tool" && !inResult:
				names, moved = append(names, f.title()), append(moved, f)
			default:
				placed.Files = append(placed.Files, f)
			}
		}
		if len(names) > 0 {
			lines = append(lines, "["+strings.Join(names, ", ")+" follows]")
		}
		if len(lines) > 0 {
			placed.Text = withLines(placed.Text, strings.Join(lines, "\n"))
		}
		out = append(out, placed)
	}
	flush()
	return out
}

// withLines adds lines to a text. In an envelope of a tool they are a member.
func withLines(text, lines string) string {
	switch {
	case envelopeOK(text) != nil:
		end := strings.LastIndexByte(text, '}')
		return text[:end] + `,"attachments":` + string(wire.AppendString(nil, lines)) + "}"
	case text == "":
		return lines
	}
	return text + "\n" + lines
}

// appendBase64 appends the bytes of a file as a JSON string.
func appendBase64(b []byte, f File) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), f.Data), '"')
}

// anthropicFile appends the block of a file.
func anthropicFile(b []byte, f File) []byte {
	typ := "image"
	if f.isPDF() {
		typ = "document"
	}
	b = append(append(append(b, `{"type":"`...), typ...), `","source":{"type":"base64","media_type":`...)
	b = append(wire.AppendString(b, f.MediaType), `,"data":`...)
	return append(appendBase64(b, f), "}}"...)
}

// completionContent encodes the content of a message with files for OpenAI's chat
// completions.
func completionContent(text string, files []File) json.RawMessage {
	b := contentText([]byte("["), `{"type":"text","text":`, text)
	for _, f := range files {
		if len(b) > 1 {
			b = append(b, ',')
		}
		if f.isPDF() {
			b = wire.AppendString(append(b, `{"type":"file","file":{"filename":`...), shownName(&f))
			b = wire.AppendString(append(b, `,"file_data":`...), f.url())
		} else {
			b = wire.AppendString(append(b, `{"type":"image_url","image_url":{"url":`...), f.url())
		}
		b = append(b, "}}"...)
	}
	return append(b, ']')
}

// responsesContent encodes the content of a message with files for OpenAI's Responses.
func responsesContent(text string, files []File) json.RawMessage {
	b := contentText([]byte("["), `{"type":"input_text","text":`, text)
	for _, f := range files {
		if len(b) > 1 {
			b = append(b, ',')
		}
		if f.isPDF() {
			b = wire.AppendString(append(b, `{"type":"input_file","filename":`...), shownName(&f))
			b = wire.AppendString(append(b, `,"file_data":`...), f.url())
		} else {
			b = wire.AppendString(append(b, `{"type":"input_image","image_url":`...), f.url())
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// contentText appends a part with a text that is not empty.
func contentText(b []byte, begin, text string) []byte {
	if text == "" {
		return b
	}
	return append(wire.AppendString(append(b, begin...), text), '}')
}
