package chat

import (
	"strings"

	"zino/pkg/gate/propose"
)

// pattern returns the pattern that is proposed for a grant; "": none can be derived, the
// grant is for this call only.
func (a *approval) pattern() string {
	switch a.Call.Tool {
	case "bash":
		return propose.Pattern(strings.TrimSpace(a.argument()))
	case "read", "write", "edit":
		return a.argument()
	}
	return ""
}
