package turn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"zino/pkg/environ"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// Trust asks the person at the terminal about the files of the project of a turn that are
// new or have changed, before the turn starts. Where no person can be asked a line says
// which files are not used.
func Trust(ctx context.Context, env *command.Env, d *connect.Daemon, root string) error {
	return TrustBy(ctx, env, d, root, nil)
}

// TrustBy is Trust where ask, unless it is nil, asks in place of the terminal: about the
// question and what is shown with it.
func TrustBy(ctx context.Context, env *command.Env, d *connect.Daemon, root string, ask func(question, details string) (trusted, answered bool)) error {
	if root == "" {
		return nil
	}
	for {
		report, err := rpc.Call(ctx, d.Client, proto.DaemonTrust, proto.TrustRequest{Root: root})
		switch {
		case err != nil && ctx.Err() != nil:
			return command.Interruption(ctx)
		case errors.Is(err, rpc.ErrConnect), errors.Is(err, proto.ErrUnavailable), errors.Is(err, proto.ErrUnknown):
			return nil // the turn reports it; a daemon without the method uses no such files
		case err != nil:
			env.Say("Warning: no file of the project is used: %v", err)
			return nil
		case report.Question == "":
			return nil
		case ask != nil:
		case !env.HasPerson() || os.Getenv(environ.InJob) != "" || !term.InForeground(env.In):
			env.Say("%s", text.Visible(report.Unused))
			return nil
		}
		var trusted bool
		if ask == nil {
			trusted, err = askTrust(ctx, env, report)
		} else {
			var details strings.Builder
			for _, f := range report.Files {
				if asked(f) {
					details.WriteString(TrustText(f))
				}
			}
			answered := false
			if trusted, answered = ask(text.Visible(report.Question), details.String()); !answered {
				err = io.EOF
			}
		}
		if errors.Is(err, io.EOF) {
			env.Say("%s", text.Visible(report.Unused))
			return nil
		}
		if err != nil {
			return err
		}
		if err := storeTrust(ctx, d, report, trusted); err != nil {
			env.Say("%s", text.Visible(err.Error()))
			if rpc.CodeOf(err) == proto.CodeInvalid { // a file has changed since it was shown
				continue
			}
		}
		return nil
	}
}

// asked reports whether a question is about a file.
func asked(f proto.TrustFile) bool {
	return f.SHA256 != "" && (f.State == proto.TrustNew || f.State == proto.TrustChanged)
}

// askTrust asks until the answer is yes or no. What was typed before is discarded.
func askTrust(ctx context.Context, env *command.Env, report proto.TrustReport) (trusted bool, err error) {
	screen := term.Screen(env.Err)
	term.Discard(env.In)
	for {
		fmt.Fprintf(screen, "%s [y]es, [n]o, [s]how: ", text.Visible(report.Question)) // an error on stderr cannot be reported
		line, err := term.ReadLineUntil(ctx, env.In)
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		case "s", "show":
			for _, f := range report.Files {
				if asked(f) {
					io.WriteString(screen, TrustText(f))
				}
			}
		}
		if err != nil {
			io.WriteString(screen, "\n")
			if ctx.Err() != nil {
				err = command.Interruption(ctx)
			}
			return false, err
		}
	}
}

// TrustText is a file of a project for people: what it brings, in several lines.
func TrustText(f proto.TrustFile) string {
	line := render.Home(f.Path) + " (" + f.State + "): " + f.Summary
	if f.Problem != "" {
		line = render.Home(f.Path) + " is never used: " + f.Problem
	}
	var b strings.Builder
	b.WriteString(text.VisibleLine(line) + "\n")
	for detail := range strings.Lines(text.Visible(f.Details)) {
		b.WriteString("    " + strings.TrimRight(detail, "\n") + "\n")
	}
	return b.String()
}

// storeTrust stores the answer about all files of a question.
func storeTrust(ctx context.Context, d *connect.Daemon, report proto.TrustReport, trusted bool) error {
	for _, f := range report.Files {
		if !asked(f) {
			continue
		}
		if _, err := rpc.Call(ctx, d.Client, proto.DaemonSetTrust, proto.SetTrust{Path: f.Path, SHA256: f.SHA256, Trusted: &trusted}); err != nil {
			return err
		}
	}
	return nil
}
