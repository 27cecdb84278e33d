package daemon

import (
	"fmt"
	"path/filepath"
	"unicode"
	"unicode/utf8"

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
	return nil
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
