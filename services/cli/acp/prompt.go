package acp

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sourcegraph/jsonrpc2"

	"zino/proto"
)

// maxFiles is how many bytes of images a prompt may have.
const maxFiles = 10 << 20

// message makes a message of the blocks of a prompt: links become @path, embedded resources
// fenced blocks, and images files.
func message(blocks []content) (text string, files []proto.FileData, err error) {
	var b strings.Builder
	size := 0
	separate := func() {
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") && !strings.HasSuffix(s, " ") {
			b.WriteString("\n")
		}
	}
	for i, c := range blocks {
		switch c.Type {
		case "text":
			b.WriteString(c.Text)
		case "resource_link":
			if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") && !strings.HasSuffix(s, " ") {
				b.WriteString(" ")
			}
			b.WriteString(linkText(c.URI) + " ")
		case "resource":
			if c.Resource.Text == nil {
				if !strings.HasPrefix(c.Resource.MIMEType, "image/") && c.Resource.MIMEType != "application/pdf" {
					return "", nil, invalid("prompt[%d]: a resource without text", i)
				}
				files = append(files, proto.FileData{Name: baseName(c.Resource.URI), MediaType: c.Resource.MIMEType, Data: c.Resource.Blob})
				size += len(c.Resource.Blob)
				continue
			}
			separate()
			fence := "```"
			for strings.Contains(*c.Resource.Text, fence) {
				fence += "`"
			}
			b.WriteString(c.Resource.URI + "\n" + fence + "\n" + strings.TrimRight(*c.Resource.Text, "\n") + "\n" + fence + "\n")
		case "image":
			files = append(files, proto.FileData{Name: baseName(c.URI), MediaType: c.MIMEType, Data: c.Data})
			size += len(c.Data)
		default:
			return "", nil, invalid("prompt[%d]: content of the type %q is not taken", i, c.Type)
		}
	}
	if size > maxFiles {
		return "", nil, invalid("the prompt has %d bytes of images; at most %d are taken", size, maxFiles)
	}
	if text = strings.TrimSpace(b.String()); text == "" && len(files) > 0 {
		text = "See the attached file."
	}
	if text == "" {
		return "", nil, invalid("the prompt is empty")
	}
	return text, files, nil
}

// unsaved replaces links to files by their content in the editor, with --client-fs and an
// editor that has it. A file that cannot be read there stays a link.
func (a *agent) unsaved(ctx context.Context, sess *session, blocks []content) []content {
	if !a.limits.clientFS || !a.readsFS {
		return blocks
	}
	blocks = slices.Clone(blocks)
	for i, c := range blocks {
		path, isFile := strings.CutPrefix(linkText(c.URI), "@")
		if c.Type != "resource_link" || !isFile {
			continue
		}
		var answer struct {
			Content *string `json:"content"`
		}
		if a.conn.Call(ctx, "fs/read_text_file", object{"sessionId": sess.id, "path": strings.Trim(path, `"`)}, &answer) == nil && answer.Content != nil {
			blocks[i].Type, blocks[i].Resource.URI, blocks[i].Resource.Text = "resource", c.URI, answer.Content
		}
	}
	return blocks
}

// linkText returns @path for a file, with quotes if it has blanks, else the URI.
func linkText(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Path == "" {
		return uri
	}
	if strings.ContainsAny(u.Path, " \t\n\"") {
		return `@"` + strings.ReplaceAll(u.Path, `"`, `\"`) + `"`
	}
	return "@" + u.Path
}

// baseName returns a name for a file with a URI.
func baseName(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Path != "" {
		return filepath.Base(u.Path)
	}
	return "image"
}

func invalid(format string, args ...any) error {
	return failure(jsonrpc2.CodeInvalidParams, format, args...)
}
