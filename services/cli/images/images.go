// Package images prepares the images of a prompt with zino-attach, the program beside this
// one that links the decoders.
package images

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// Source is an image or PDF file: a path, or a name and its content.
type Source struct {
	Path string `json:"path,omitzero"`
	Name string `json:"name,omitzero"`
	Data []byte `json:"data,omitzero"`
}

// Prepare returns files as a model gets them. The error is that of the first one that
// cannot be sent. Without sources it starts no program.
func Prepare(ctx context.Context, sources []Source) (files []proto.FileData, err error) {
	if len(sources) == 0 {
		return nil, nil
	}
	if len(sources) > proto.AttachmentsMax {
		return nil, proto.Errorf(proto.CodeInvalid, "a prompt has at most %d images, not %d", proto.AttachmentsMax, len(sources))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var in, out, problem bytes.Buffer
	for _, s := range sources {
		if s.Path != "" {
			if s.Path, err = filepath.Abs(s.Path); err != nil {
				return nil, err
			}
		}
		line, err := wire.AppendObject(nil, "", s)
		if err != nil {
			return nil, err
		}
		in.Write(append(line, '\n'))
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(self), "zino-attach"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &problem
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(problem.String()); text != "" {
			err = errors.New(text)
		}
		return nil, fmt.Errorf("images need the program zino-attach beside zino: %w", err)
	}
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, out.Len()+1)
	for lines.Scan() {
		var answer struct {
			proto.FileData
			Error string `json:"error,omitzero"`
		}
		if err := wire.DecodeReply(lines.Bytes(), &answer); err != nil {
			return nil, fmt.Errorf("zino-attach: %w", err)
		}
		if answer.Error != "" {
			return nil, errors.New(answer.Error)
		}
		files = append(files, answer.FileData)
	}
	if len(files) != len(sources) {
		return nil, errors.New("zino-attach answered with too few files")
	}
	return files, nil
}

// inRequest is the size of files that are sent with the prompt itself, in bytes.
const inRequest = 10 << 20

// Add adds files to a request of a session. If they are too large for it, they are stored
// with the session first.
func Add(ctx context.Context, daemon *rpc.Client, req *proto.Chat, files []proto.FileData) error {
	size := 0
	for _, f := range files {
		size += len(f.Data)
	}
	if size <= inRequest {
		req.Files = files
		return nil
	}
	if req.NoSave {
		return proto.Errorf(proto.CodeTooLarge, "the images of a prompt that is not stored have %d MB; at most %d MB fit", size>>20, inRequest>>20)
	}
	if req.SessionID == "" {
		req.SessionID = proto.NewSessionID()
	}
	for _, f := range files {
		a, err := rpc.Call(ctx, daemon, proto.DaemonAttach, proto.AttachFile{SessionID: req.SessionID, Name: f.Name, MediaType: f.MediaType, Data: f.Data})
		if err != nil {
			return err
		}
		req.Attachments = append(req.Attachments, proto.AttachmentRef{ID: a.ID, Name: a.Name})
	}
	return nil
}
