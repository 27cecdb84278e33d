package daemon

import (
	"context"
	"os"
	"path/filepath"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/trust"
)

// ownProject reports whether a user's turns use the files of projects. A daemon that runs as
// another user, as that of the host does, ignores them: its programs are not the user's.
func ownProject(uid int) bool { return uid == os.Geteuid() }

// projectOf loads the trusted files of a root. It is the one place where a turn gets them.
func (s *Service) projectOf(root string, uid int) (trust.Project, error) {
	if root == "" || !ownProject(uid) {
		return trust.Project{}, nil
	}
	p, _, err := trust.Load(root, os.Getenv("HOME"), s.answers)
	return p, err
}

// trust reports the files of a project that need trust.
func (s *Service) trust(ctx context.Context, req proto.TrustRequest) (proto.TrustReport, error) {
	report := proto.TrustReport{Files: []proto.TrustFile{}}
	if !filepath.IsAbs(req.Root) {
		return report, proto.Errorf(proto.CodeInvalid, "invalid root %q: use an absolute path", req.Root)
	}
	if !ownProject(rpc.PeerUID(ctx)) {
		return report, nil
	}
	return trust.Report(req.Root, os.Getenv("HOME"), s.answers)
}

// setTrust stores an answer of a person about a file of a project.
func (s *Service) setTrust(ctx context.Context, req proto.SetTrust) (proto.Empty, error) {
	if uid := rpc.PeerUID(ctx); !ownProject(uid) {
		return proto.Empty{}, proto.Errorf(proto.CodeDenied, "uid %d may not trust files: this daemon runs as uid %d and uses no files of projects", uid, os.Geteuid())
	}
	return proto.Empty{}, trust.Set(req, os.Getenv("HOME"), s.answers)
}

// withProject returns a request to mcp with the trusted servers of its root, and for a test
// with the token of the server. Those that the caller names are dropped.
func (s *Service) withProject(ctx context.Context, typ string, request proto.Raw) (proto.Raw, error) {
	request, err := withMember(request, "client", nil)
	if err != nil {
		return nil, err
	}
	var at struct {
		Root   string `json:"root"`
		Server string `json:"server"`
	}
	if err := wire.DecodeReply(request, &at); err != nil {
		return nil, proto.Errorf(proto.CodeInvalid, "Invalid request: field %q: %v", "request", err)
	}
	project, err := s.projectOf(at.Root, rpc.PeerUID(ctx))
	if err != nil {
		return nil, err
	}
	if request, err = withMember(request, "project", project.MCP); err != nil || typ != proto.MCPTest.Type {
		return request, err
	}
	token, err := s.serverToken(ctx, at.Server, at.Root)
	if err != nil {
		return nil, err
	}
	return withMember(request, "server_token", wire.AppendString(nil, token))
}
