package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// editorPatience is how long an editor may take to end when it is told to.
const editorPatience = 3 * time.Second

// edit has the user change a text in an editor and stores what came of it. A
// text that cannot be stored is not lost: it stays in its file.
func (a *app) edit(text, name string, store func(string) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	theirs := make(chan os.Signal, 1)
	signal.Notify(theirs, os.Interrupt) // Ctrl-C is the editor's
	defer signal.Stop(theirs)
	d, err := newDraft(text, name)
	if err != nil {
		return err
	}
	if err := a.runEditor(ctx, d.path); err != nil {
		return d.leave(a, err)
	}
	changed, err := d.read()
	switch {
	case err != nil:
		return d.leave(a, err)
	case changed == text:
		a.say("The text is as it was: nothing was changed.")
	case strings.TrimSpace(changed) == "":
		a.say("The text was emptied: nothing was changed.")
	default:
		if err := store(changed); err != nil {
			return d.leave(a, err)
		}
	}
	return d.remove()
}

// runEditor waits until the editor has ended. The terminal is given back as it
// was found, whatever the editor did to it.
func (a *app) runEditor(ctx context.Context, path string) error {
	name, cmd := editorFor(ctx, path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.in, a.out, a.err
	if !isTerminal(a.out) {
		cmd.Stdout = a.screen() // standard output is for data
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = editorPatience
	if state, err := term.GetState(int(a.in.Fd())); err == nil {
		defer term.Restore(int(a.in.Fd()), state) // there is nothing to be done about an error
	}
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return fmt.Errorf("the editor %q failed, and nothing was changed: %w; set $VISUAL or $EDITOR to another one", name, err)
	}
	return nil
}

// editorFor is the user's editor on a file: a name with options, or a line for
// the shell, which must outlive a Ctrl-C as the editor does.
func editorFor(ctx context.Context, path string) (string, *exec.Cmd) {
	name := "vi"
	for _, variable := range []string{"EDITOR", "VISUAL"} {
		if value := strings.TrimSpace(os.Getenv(variable)); value != "" {
			name = value
		}
	}
	if strings.ContainsAny(name, "\n|&;<>()$`\\\"'*?[#~=%") {
		return name, exec.CommandContext(ctx, "sh", "-c", "trap : INT; "+name+` "$@"`, "sh", path)
	}
	words := append(strings.Fields(name), path)
	return name, exec.CommandContext(ctx, words[0], words[1:]...)
}

// draft is a text in a file, for an editor. Nobody else can read it.
type draft struct {
	path, written string
	bare          bool // the newline at the end is not the text's own
}

// newDraft writes a text to a new file. Editors want a newline at the end.
func newDraft(text, name string) (*draft, error) {
	dir, err := os.MkdirTemp("", "zino-edit-")
	if err != nil {
		return nil, err
	}
	d := &draft{path: filepath.Join(dir, name), written: text, bare: !strings.HasSuffix(text, "\n")}
	if d.bare && text != "" {
		d.written += "\n"
	}
	if err := os.WriteFile(d.path, []byte(d.written), 0o600); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return d, nil
}

// read is the text as it stands in the file now.
func (d *draft) read() (string, error) {
	data, err := os.ReadFile(d.path)
	switch {
	case err != nil:
		return "", err
	case !utf8.Valid(data):
		return "", errNotText
	case d.bare:
		return strings.TrimSuffix(string(data), "\n"), nil
	}
	return string(data), nil
}

// leave ends an edit that failed. A text that was changed stays where it is.
func (d *draft) leave(a *app, why error) error {
	data, err := os.ReadFile(d.path)
	if err != nil || string(data) == d.written {
		return errors.Join(why, d.remove())
	}
	a.say("Your text is kept in %s", d.path)
	return why
}

// remove deletes the file, its directory, and what the editor left beside it.
func (d *draft) remove() error { return os.RemoveAll(filepath.Dir(d.path)) }
