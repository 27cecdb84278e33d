package mem

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"zino/pkg/durable"
	"zino/proto"
)

const softFile = "soft_memory.txt"

func (s *Service) getSoft(context.Context, proto.GetSoft) (proto.SoftMemory, error) {
	data, err := s.root.ReadFile(softFile)
	if errors.Is(err, fs.ErrNotExist) {
		return proto.SoftMemory{}, nil
	}
	if err != nil {
		return proto.SoftMemory{}, fileError("soft memory", filepath.Join(s.cfg.DataDir, softFile), err)
	}
	return proto.SoftMemory{Content: strings.ToValidUTF8(string(data), "\ufffd"), Set: true}, nil
}

// setSoft replaces the file as a whole, so that a reader sees the old text or
// the new one.
func (s *Service) setSoft(_ context.Context, req proto.SetSoft) (proto.Empty, error) {
	if err := durable.Replace(s.root, softFile, []byte(req.Content)); err != nil {
		return proto.Empty{}, fileError("soft memory", filepath.Join(s.cfg.DataDir, softFile), err)
	}
	return proto.Empty{}, nil
}
