package command

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

	"zino/proto"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// editorGrace is the time between SIGTERM and SIGKILL for an editor.
const editorGrace = 3 * time.Second

// ErrNotUTF8 is the error for input that is not valid UTF-8.
var ErrNotUTF8 error = proto.Errorf(proto.CodeInvalid, "the text is not UTF-8, and nothing was changed: convert it first, for example with iconv")

// Edit opens a text in an editor and calls store with the result. If store fails, the
// file is kept and its path is printed.
func (e *Env) Edit(content, name string, store func(string) error) error {
	dir, err := os.MkdirTemp("", "zino-edit-")
	if err != nil {
		return err
	}
	path, written := filepath.Join(dir, name), content
	bare := !strings.HasSuffix(content, "\n")
	if bare && content != "" {
		written += "\n" // editors expect a newline at the end
	}
	if err := os.WriteFile(path, []byte(written), 0o600); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	fail := func(why error) error {
		if data, err := os.ReadFile(path); err != nil || string(data) == written {
			return errors.Join(why, os.RemoveAll(dir))
		}
		e.Say("Your text is kept in %s", path)
		return why
	}
	if err := e.EditFile(path); err != nil {
		return fail(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fail(err)
	}
	if !utf8.Valid(data) {
		return fail(ErrNotUTF8)
	}
	changed := string(data)
	if bare {
		changed = strings.TrimSuffix(changed, "\n")
	}
	switch {
	case changed == content:
		e.Say("The text is as it was: nothing was changed.")
	case strings.TrimSpace(changed) == "":
		e.Say("The text was emptied: nothing was changed.")
	default:
		if err := store(changed); err != nil {
			return fail(err)
		}
	}
	return os.RemoveAll(dir) // also removes backup files of the editor
}

// EditFile runs the user's editor on a file: $VISUAL, $EDITOR or vi. It restores the
// terminal afterwards. Ctrl-C does not end zino meanwhile.
func (e *Env) EditFile(path string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	name := "vi"
	for _, variable := range []string{"EDITOR", "VISUAL"} {
		if value := strings.TrimSpace(os.Getenv(variable)); value != "" {
			name = value
		}
	}
	words := append(strings.Fields(name), path)
	if strings.ContainsAny(name, "\n|&;<>()$`\\\"'*?[#~=%") { // needs a shell, which must survive Ctrl-C
		words = []string{"sh", "-c", "trap : INT; " + name + ` "$@"`, "sh", path}
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.In, e.Out, e.Err
	if !term.IsTerminal(e.Out) {
		cmd.Stdout = term.Screen(e.Err) // standard output is for data
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = editorGrace
	defer term.Preserve(e.In)()
	err := cmd.Run()
	if ctx.Err() != nil {
		return render.ErrInterrupted
	}
	if err != nil {
		return fmt.Errorf("the editor %q failed, and nothing was changed: %w; set $VISUAL or $EDITOR to another one", name, err)
	}
	return nil
}
