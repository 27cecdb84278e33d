package turn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// Session returns the session of this run: the named one or a new one. known is nil
// if the session does not exist yet.
func Session(ctx context.Context, env *command.Env, d *connect.Daemon) (id string, known *proto.SessionSummary, err error) {
	switch {
	case env.Session == "" && !env.Latest:
		return proto.NewSessionID(), nil, nil
	case env.Session == "":
		found, err := Latest(ctx, env, d)
		return found.SessionID, &found, err
	}
	found, err := connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: env.Session})
	switch {
	case err == nil:
		return found.SessionID, &found, nil
	case errors.Is(err, proto.ErrNotFound) && isShortID(env.Session):
		return "", nil, sessionError(proto.CodeNotFound,
			"no session has an id that begins with %s; zino sessions list --all shows those there are (with the --config and --socket that it was made with)", env.Session)
	case errors.Is(err, proto.ErrNotFound), errors.Is(err, proto.ErrInvalid) && !isHex(env.Session): // a new session of that name
		return env.Session, nil, nil
	case errors.Is(err, proto.ErrInvalid): // several begin with that
		return "", nil, sessionError(proto.CodeInvalid, "%s", err.Error())
	}
	return "", nil, err
}

// Latest returns the most recently changed session of --root.
func Latest(ctx context.Context, env *command.Env, d *connect.Daemon) (proto.SessionSummary, error) {
	root, err := env.RootDir()
	if err != nil {
		return proto.SessionSummary{}, err
	}
	found, err := connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{Root: root})
	if !errors.Is(err, proto.ErrNotFound) {
		return found, err
	}
	if root == "" {
		return found, sessionError(proto.CodeNotFound, "No sessions found to resume")
	}
	latest, err := connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{})
	if errors.Is(err, proto.ErrNotFound) {
		return found, sessionError(proto.CodeNotFound, "No sessions found to resume")
	}
	if err != nil {
		return found, err
	}
	return found, sessionError(proto.CodeNotFound, "No sessions found to resume in %s; the latest of all is of %s: zino sessions resume %s%s",
		render.Home(root), render.Dash(render.Home(latest.Root)), ShortID(latest.SessionID), render.ShellFlag("--root", latest.Root))
}

func sessionError(code proto.Code, format string, args ...any) error {
	return &proto.Error{Code: code, Kind: "session", Message: fmt.Sprintf(format, args...)}
}

// isHex reports whether a name may be the beginning of a UUID.
func isHex(name string) bool { return strings.Trim(name, "0123456789abcdef-") == "" }

const uuidLength = len("6467336c-1f30-429b-8d2f-0123456789ab")

// isShortID reports whether a name looks like the beginning of an id: at least eight
// digits of a UUID. Decimal digits alone are more likely a date.
func isShortID(name string) bool {
	if len(name) < 8 || len(name) >= uuidLength || strings.Trim(name, "0123456789-") == "" {
		return false
	}
	for i, r := range name {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (r == '-') || !dash && !strings.ContainsRune("0123456789abcdef", r) {
			return false
		}
	}
	return true
}

// ShortID returns the beginning of an id by which hints name the session.
func ShortID(id string) string {
	const enough = 8
	if len(id) == uuidLength && isHex(id) {
		return id[:enough]
	}
	return id
}

// NoteRecall says that --no-recall changes nothing of a session that exists.
func NoteRecall(env *command.Env, known *proto.SessionSummary) {
	if known != nil && env.NoRecall {
		env.Say("Note: --no-recall is for new sessions: session %s stays as it was begun", ShortID(known.SessionID))
	}
}

// NoteLoaded prints how many messages the session already has, except with --json.
func NoteLoaded(env *command.Env, known *proto.SessionSummary) {
	if known != nil && known.Messages > 0 && !env.JSON() {
		env.Say("Loaded %d previous messages", known.Messages)
	}
}
