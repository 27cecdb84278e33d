package sessions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"zino/pkg/attach/kind"
	"zino/pkg/durable"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// exportFiles writes the attachments of a session into a directory, under their names.
// Those that are missing or damaged are an error after the others are written.
func exportFiles(ctx context.Context, env *command.Env, d *connect.Daemon, id, dir string) error {
	summary, err := connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: id})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, durable.DirMode); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	seen, lost := map[string]bool{}, []string{}
	each := func(a proto.Attachment) error {
		if seen[a.ID] {
			return nil
		}
		seen[a.ID] = true
		got, err := connect.Forward(ctx, d, "mem", proto.MemGetAttachment, proto.GetAttachment{SessionID: summary.SessionID, ID: a.ID})
		if errors.Is(err, proto.ErrNotFound) {
			lost = append(lost, render.Line(fileName(a)))
			return nil
		}
		if err != nil {
			return err
		}
		sum, _ := kind.Sum(a.ID)
		return writeNew(root, fileName(a), sum, got.Data)
	}
	err = Pieces(ctx, d, summary.SessionID, func(piece proto.SessionEvents) error {
		for event := range wire.Items(piece.Events) {
			var e Event
			if wire.Decode(event, &e) != nil {
				continue
			}
			for _, a := range filesOf(e.Files) {
				if err := each(a); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	env.Say("%s in %s", text.Count(len(seen)-len(lost), "attachment"), dir)
	if len(lost) > 0 {
		return fmt.Errorf("missing or damaged attachments were left out: %s", strings.Join(lost, ", "))
	}
	return nil
}

// fileName returns the name under which an attachment is written. That in the session is
// foreign text.
func fileName(a proto.Attachment) string {
	name := kind.Name(a.Name)
	if strings.Trim(name, ". ") == "" {
		_, ext, _ := strings.Cut(a.MediaType, "/")
		return "file." + ext
	}
	return name
}

// writeNew writes a file, under a name with the beginning of its hash if the name is
// taken. A file that has the content already stays.
func writeNew(root *os.Root, name, sum string, data []byte) error {
	const private = 0o600
	ext := filepath.Ext(name)
	for _, name := range []string{name, strings.TrimSuffix(name, ext) + "-" + sum[:8] + ext} {
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
		if err == nil {
			_, err = f.Write(data)
			return errors.Join(err, f.Close())
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(data)) {
			if have, err := root.ReadFile(name); err == nil && bytes.Equal(have, data) {
				return nil
			}
		}
	}
	return &fs.PathError{Op: "create", Path: filepath.Join(root.Name(), name), Err: fs.ErrExist}
}
