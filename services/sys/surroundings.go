package sys

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"syscall"
	"time"

	"zino/pkg/visible"
	"zino/proto"
	"zino/services/sys/textfile"
)

// gitLimit is how long a prompt waits for the git state: the directory may lie on
// a file system that does not answer.
const gitLimit = 300 * time.Millisecond

// surroundings are the values of a session's template that belong to one turn.
// They change rarely within a session, so that the providers' prompt caches stay
// valid: the date has no time, the git state no list of changes.
func (s *Service) surroundings(ctx context.Context, req proto.GetPrompt) map[string]string {
	sandbox := cmp.Or(req.Sandbox, proto.Level(s.exc.Sandbox))
	network := s.exc.Network
	if req.Network != nil {
		network = *req.Network
	}
	values := map[string]string{
		"DIRECTORY": "none: commands run in the service's own directory", "GIT": "no repository",
		"SYSTEM": systemName(), "DATE": time.Now().Format("Monday, 2006-01-02 (MST)"),
		"SANDBOX": string(sandbox), "NETWORK": "no",
	}
	switch sandbox {
	case proto.LevelOff:
		values["SANDBOX"] = "off, commands have all rights of this user"
	case proto.LevelReadOnly:
		values["SANDBOX"] = "read-only, commands can write nothing"
	case proto.LevelWorkspaceWrite:
		values["SANDBOX"] = "workspace-write, commands can write below the directory only"
	case proto.LevelUnit:
		values["SANDBOX"] = "unit, commands run as a user of their own"
	}
	if network || sandbox == proto.LevelOff {
		values["NETWORK"] = "yes"
	}
	if req.Root != "" {
		values["DIRECTORY"] = visible.Line(req.Root)
		values["GIT"] = boundedGitState(ctx, req.Root)
	}
	return values
}

// boundedGitState is gitState within gitLimit. A read that hangs is left behind.
func boundedGitState(ctx context.Context, dir string) string {
	ctx, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	state := make(chan string, 1)
	go func() { state <- gitState(dir) }()
	select {
	case text := <-state:
		return text
	case <-ctx.Done():
		return "unknown"
	}
}

// systemName names distribution, kernel and architecture.
var systemName = sync.OnceValue(func() string {
	name := "Linux"
	if text, _, err := textfile.Head("/etc/os-release", 64<<10); err == nil {
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				name = visible.Line(strings.Trim(value, "\"'\n"))
			}
		}
	}
	var u syscall.Utsname
	if err := syscall.Uname(&u); err == nil {
		name += ", Linux " + utsField(u.Release[:]) + " " + utsField(u.Machine[:])
	}
	return name
})

// utsField returns a field of uname, whose type depends on the architecture.
func utsField[T int8 | uint8](field []T) string {
	var b strings.Builder
	for _, c := range field {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return visible.Line(b.String())
}
