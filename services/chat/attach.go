package chat

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"zino/pkg/attach"
	"zino/pkg/mention"
	"zino/pkg/text"
	"zino/proto"
)

// imagesMax limits the bytes of the images of a message: they are sent with it.
const imagesMax = 10 << 20

// attach reads the files that a message names with @. notes has a line for each file that
// is named only.
func (c *chat) attach(message string) (whole string, images []picture, notes []string) {
	read := mention.Files(message, c.root, homeDir())
	size := 0
	for _, path := range read.Images {
		file, err := imageOf(path)
		switch {
		case err != nil:
		case len(images) == proto.AttachmentsMax:
			err = fmt.Errorf("%s: a message has at most %d images, named only", safe(file.Name), proto.AttachmentsMax)
		case size+len(file.Data) > imagesMax:
			err = fmt.Errorf("%s: the images of a message have more than %d MB, named only", safe(file.Name), imagesMax>>20)
		}
		if err != nil {
			read.Notes = append(read.Notes, safe(err.Error()))
			continue
		}
		size += len(file.Data)
		images = append(images, file)
	}
	return read.Text, images, read.Notes
}

// imageOf reads an image as a model gets it.
func imageOf(path string) (picture, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > attach.FileMax {
		err = fmt.Errorf("%s: %s, named only", path, mention.Size(info.Size()))
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return picture{}, err
	}
	file, a, err := attach.Prepare(proto.FileData{Name: path, Data: data})
	return picture{file, imageShown(a)}, err
}

// picture is an image of a message.
type picture struct {
	proto.FileData
	shown string // a line about it
}

// dataOf returns the images of a message as they are sent.
func (m message) dataOf() (list []proto.FileData) {
	for _, p := range m.images {
		list = append(list, p.FileData)
	}
	return list
}

// imageShown describes an image that is attached to a message.
func imageShown(a proto.Attachment) string {
	if a.Width == 0 {
		return fmt.Sprintf("attached %s, %s", safe(a.Name), mention.Size(int64(a.Bytes)))
	}
	return fmt.Sprintf("attached %s, %dx%d", safe(a.Name), a.Width, a.Height)
}

// unattached splits a message into what was typed and what attach has appended: a line
// for each file.
func unattached(message string) (typed string, files []string) {
	for at := 0; ; {
		i := strings.Index(message[at:], mention.Head)
		if i < 0 {
			return message, nil
		}
		at += i
		if files, ok := attachments(message[at:], mention.Names(message[:at])); ok {
			return message[:at], files
		}
		at += len(mention.Head)
	}
}

// attachments describes the files that a text consists of; ok is false if there is
// something else in it, or a name that was not mentioned.
func attachments(s string, mentioned [][]string) (files []string, ok bool) {
	for s != "" {
		rest, ok := strings.CutPrefix(s, mention.Head)
		if !ok {
			return nil, false
		}
		name, rest, ok := strings.Cut(rest, ":\n")
		if !ok || !slices.ContainsFunc(mentioned, func(names []string) bool { return slices.Contains(names, name) }) {
			return nil, false
		}
		fence := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
		content, rest, ok := strings.Cut(rest[len(fence):], fence)
		if len(fence) < 3 || !ok || !strings.HasPrefix(content, "\n") || !strings.HasSuffix(content, "\n") {
			return nil, false
		}
		files = append(files, fmt.Sprintf("attached %s, %s", safe(name), text.Count(strings.Count(content, "\n")-1, "line")))
		s = rest
	}
	return files, true
}

// resolve returns the path of a name as it is typed.
func (c *chat) resolve(name string) string { return mention.Resolve(name, c.root, homeDir()) }
