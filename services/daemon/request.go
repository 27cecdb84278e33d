package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"unicode"
	"unicode/utf8"

	"zino/pkg/environ"
	"zino/proto"
)

// sessionIDMax is the length of a session's id in bytes: mem's limit.
const sessionIDMax = 200

// check says what is wrong with a message whose text has been trimmed.
func check(req proto.Chat) error {
	if err := checkPlace(req.SessionID, req.Root); err != nil {
		return err
	}
	if req.Message == "" {
		return invalid("Empty message.")
	}
	if _, err := environ.List(req.Env); err != nil {
		return invalid("env: %v", err)
	}
	if req.Cwd != "" && !filepath.IsAbs(req.Cwd) {
		return invalid("invalid cwd %q: use an absolute path", req.Cwd)
	}
	if req.Umask != nil && (*req.Umask < 0 || *req.Umask > 0o777) {
		return invalid("invalid umask %d: use 0 to 511 (0777)", *req.Umask)
	}
	return nil
}

// forCaller drops the environment of a caller that is not the daemon's own user:
// the constellation is one that several users share.
func forCaller(req proto.Chat, uid int) proto.Chat {
	if uid != os.Geteuid() {
		req.Env, req.Cwd, req.Umask = nil, "", nil
	}
	return req
}

// checkPlace holds that a session's id is a name that mem takes, and a root an
// absolute path. Both may be absent. It is looked at before anybody is asked:
// a turn that stores nothing must not read files beside the sessions either.
func checkPlace(sessionID, root string) error {
	if sessionID != "" && !isSessionID(sessionID) {
		return invalid("%.80q is no name for a session: it may have letters, digits, '.', '_' and '-', begins with a letter, a digit or '_', and is at most %d bytes long", sessionID, sessionIDMax)
	}
	if root != "" && !filepath.IsAbs(root) {
		return invalid("The root %q is no absolute path.", root)
	}
	return nil
}

func isSessionID(id string) bool {
	if len(id) > sessionIDMax || !utf8.ValidString(id) || id[0] == '.' || id[0] == '-' {
		return false
	}
	for _, r := range id {
		if r != '.' && r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			return false
		}
	}
	return true
}

func invalid(format string, args ...any) error {
	return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
