package acp

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"zino/pkg/mention"
	visible "zino/pkg/text"
	"zino/proto"
	"zino/services/cli/images"
)

// message makes a message of the blocks of a prompt: links become @path, embedded resources
// fenced blocks, and images files. As in every prompt, text files that are named with @ are
// appended, and images that are named are files, too.
func (sess *session) message(ctx context.Context, blocks []content) (text string, files []proto.FileData, err error) {
	var b, typed strings.Builder // typed: without embedded resources
	var sources []images.Source
	separate := func(separator string) {
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") && !strings.HasSuffix(s, " ") {
			b.WriteString(separator)
		}
	}
	for i, c := range blocks {
		switch {
		case c.Type == "text":
			b.WriteString(c.Text)
			typed.WriteString(c.Text)
		case c.Type == "resource_link":
			separate(" ")
			b.WriteString(linkText(c.URI) + " ")
			typed.WriteString(" " + linkText(c.URI) + " ")
		case c.Type == "image":
			sources = append(sources, images.Source{Name: baseName(c.URI), Data: c.Data})
		case c.Type == "resource" && c.Resource.Text != nil:
			separate("\n")
			b.WriteString(c.Resource.URI + "\n" + visible.Fenced("", *c.Resource.Text) + "\n")
		case c.Type == "resource" && len(c.Resource.Blob) > 0:
			sources = append(sources, images.Source{Name: baseName(c.Resource.URI), Data: c.Resource.Blob})
		default:
			return "", nil, invalid("prompt[%d]: content of the type %q is not accepted", i, c.Type)
		}
	}
	read := mention.Files(typed.String(), sess.root, os.Getenv("HOME"))
	for _, note := range read.Notes {
		sess.env.Say("%s", note)
	}
	for _, path := range read.Images {
		sources = append(sources, images.Source{Path: path})
	}
	if files, err = images.Prepare(ctx, sources); err != nil {
		return "", nil, invalid("%v", err)
	}
	text = strings.TrimRight(b.String(), " \t\r\n") + strings.TrimPrefix(read.Text, typed.String()) // a blank in front of a slash makes it text
	if text == "" && len(files) > 0 {
		text = "See the attached file."
	}
	if text == "" {
		return "", nil, invalid("the prompt is empty")
	}
	return text, files, nil
}

// clientFiles reports whether the text of files is asked of the client.
func (a *agent) clientFiles() bool { return a.limits.clientFS && a.readsFS && a.version == 1 }

// unsaved replaces links to files by their content in the editor, with --client-fs and an
// editor that has it. A file that cannot be read there stays a link.
func (a *agent) unsaved(ctx context.Context, sess *session, blocks []content) []content {
	if !a.clientFiles() {
		return blocks
	}
	blocks = slices.Clone(blocks)
	for i, c := range blocks {
		path, isFile := filePath(c.URI)
		if c.Type != "resource_link" || !isFile {
			continue
		}
		text, err := sess.clientText(ctx, path)
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if text != nil {
			blocks[i].Type, blocks[i].Resource.URI, blocks[i].Resource.Text = "resource", c.URI, text
		}
	}
	return blocks
}

const (
	fileLimit = 2 * time.Second // for the client's answer about a file
	maxFile   = 1 << 20         // bytes of a text that is used
)

// clientText returns the text that the client has of a file; nil: none that can be used.
func (sess *session) clientText(ctx context.Context, path string) (*string, error) {
	ctx, stop := context.WithTimeout(ctx, fileLimit)
	defer stop()
	var answer struct {
		Content *string `json:"content"`
	}
	err := sess.conn.Call(ctx, "fs/read_text_file", object{"sessionId": sess.id, "path": path}, &answer)
	if err != nil || answer.Content == nil || len(*answer.Content) > maxFile {
		return nil, err
	}
	return answer.Content, nil
}

// sendFile sends the text that the client has of a file to the turn, which asks no more if
// the client does not answer.
func (u *updates) sendFile(e proto.FileRequested) {
	text, err := u.clientText(u.ctx, filepath.Clean(e.Path))
	if errors.Is(err, context.DeadlineExceeded) {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), answerLimit)
	defer stop()
	answer := proto.AnswerFile{SessionID: u.session.id, Turn: e.Turn, ID: e.ID, Text: text}
	if _, err := call(ctx, u.agent, proto.DaemonAnswerFile, answer); err != nil && !errors.Is(err, proto.ErrNotFound) {
		u.env.Say("Warning: the text of %s in the editor was not used: %v", e.Path, err)
	}
}

// filePath returns the path of a file: URI of this host.
func filePath(uri string) (path string, ok bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Path == "" {
		return "", false
	}
	return u.Path, true
}

// linkText returns @path for a file, with quotes if it has blanks, else the URI.
func linkText(uri string) string {
	path, ok := filePath(uri)
	switch {
	case !ok:
		return uri
	case strings.ContainsAny(path, " \t\n\""):
		return `@"` + strings.ReplaceAll(path, `"`, `\"`) + `"`
	}
	return "@" + path
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
