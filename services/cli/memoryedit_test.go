package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/proto"
)

// editing is a command whose editor is a shell script: $1 is the file.
func (m *fakeMem) editing(t *testing.T, script string, args ...string) (cmd *exec.Cmd, tmp string) {
	t.Helper()
	w := newWorld(t)
	editor, tmp := filepath.Join(w.cwd, "my editor"), filepath.Join(w.cwd, "tmp")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd = w.command(append([]string{"--socket", m.socket, "memory"}, args...)...)
	cmd.Env = append(cmd.Env, "VISUAL='"+editor+"'", "EDITOR=false", "TMPDIR="+tmp)
	return cmd, tmp
}

// drafts lists the files that were left behind.
func drafts(t *testing.T, tmp string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(tmp, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil || len(dirs) != len(list) {
		t.Errorf("directories %v, files %v, %v", dirs, list, err)
	}
	return list
}

const pair = `[{"role":"user","content":"q"},{"content":"a\u009b","role":"assistant","x":[1]}]`

func TestMemoryEdit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, messages, script, said, want string }{
		{"a text", `[{"role":"user","content":"a key"}]`, `printf 'a <lock>\n' >"$1"`, "", `[{"role":"user","content":"a <lock>"}]`},
		{"keys stay", `[{"x":{"content":1},"content":"a\nb","role":"r"}]`, `echo c >>"$1"`, "", `[{"x":{"content":1},"content":"a\nb\nc","role":"r"}]`},
		{"its newline", `[{"role":"user","content":"a\n"}]`, `printf 'b\n' >"$1"`, "", `[{"role":"user","content":"b\n"}]`},
		{"several", pair, `sed -i '1s/q/r/' "$1"`, "", `[{"role":"user","content":"r"},{"content":"a\u009b","role":"assistant","x":[1]}]`},
		{"one of several", pair, `sed -i '2d; $a\\' "$1"`, "", `[{"role":"user","content":"q"}]`},
		{"unchanged", `[{"role":"user","content":"a"}]`, `test "$(cat "$1")" = a && echo a >"$1"`, "The text is as it was: nothing was changed.\n", `[{"role":"user","content":"a"}]`},
		{"unchanged, several", pair, `grep -q '"a.u009b"' "$1"`, "The text is as it was: nothing was changed.\n", pair},
		{"emptied", `[{"role":"user","content":"a"}]`, `echo >"$1"`, "The text was emptied: nothing was changed.\n", `[{"role":"user","content":"a"}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := newFakeMem(t)
			m.add(proto.StoreHard{Messages: proto.Raw(test.messages), Tag: "house"})
			cmd, tmp := m.editing(t, test.script, "edit", "0")
			status, out, said := run(t, cmd, "")
			if status != 0 || out != "" || said != test.said {
				t.Errorf("status %d, printed %q, said %q", status, out, said)
			}
			if got := m.item(0); string(got.Messages) != test.want || got.Tag != "house" {
				t.Errorf("it is now %s, tag %q; want %s", got.Messages, got.Tag, test.want)
			}
			if left := drafts(t, tmp); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestMemoryEditPrivate shows a text to nobody else.
func TestMemoryEditPrivate(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "secret")
	cmd, _ := m.editing(t, `stat -c %a "$1" "$(dirname "$1")" >"$1.modes"; cat "$1.modes" >"$1"`, "edit", "0")
	if status, _, said := run(t, cmd, ""); status != 0 || m.texts()[0] != "600\n700" {
		t.Errorf("status %d, said %q, modes %q", status, said, m.texts())
	}
}

// TestMemoryEditFails changes nothing, and loses no text that was changed.
func TestMemoryEditFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, messages, script, said, kept string }{
		{"the editor fails", `[{"role":"user","content":"a"}]`, "exit 3", "failed, and nothing was changed: exit status 3; set $VISUAL or $EDITOR to another one\n", ""},
		{"it fails with a text", `[{"role":"user","content":"a"}]`, `echo b >"$1"; exit 1`, "exit status 1; ", "b\n"},
		{"the file is gone", `[{"role":"user","content":"a"}]`, `rm "$1"`, "memory.txt: no such file or directory\n", ""},
		{"no text", `[{"role":"user","content":"a"}]`, `printf '\377' >"$1"`, "Error [internal]: that is no text in UTF-8, and nothing was changed", "\xff"},
		{"refused", `[{"role":"user","content":"a"}]`, `echo taken >"$1"`, "Error [usage]: another memory says it\n", "taken\n"},
		{"no JSON", pair, `echo '{"role":' >"$1"`, "malformed JSON; nothing was changed\n", "{\"role\":\n"},
		{"two in a line", pair, `echo '{"role":"","content":""},{"role":"","content":""}' >"$1"`, "there is not one message in each line; nothing was changed\n", `{"role":"","content":""},{"role":"","content":""}` + "\n"},
		{"no content", pair, `echo '{"role":"user"}' >"$1"`, "messages[0]: missing field \"content\"; nothing was changed\n", `{"role":"user"}` + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := newFakeMem(t)
			m.add(proto.StoreHard{Messages: proto.Raw(test.messages)})
			m.with(func() { m.fails = &proto.Error{Code: proto.CodeInvalid, Message: "another memory says it"} })
			cmd, tmp := m.editing(t, test.script, "edit", "0")
			status, out, said := run(t, cmd, "")
			if status != 1 || out != "" || !strings.Contains(said, test.said) || string(m.item(0).Messages) != test.messages {
				t.Errorf("status %d, printed %q, said %q, it is now %s", status, out, said, m.item(0).Messages)
			}
			left := drafts(t, tmp)
			if test.kept == "" {
				if len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
				return
			}
			if len(left) != 1 || !strings.Contains(said, "Your text is kept in "+left[0]+"\n") {
				t.Fatalf("kept %v, said %q", left, said)
			}
			if data, err := os.ReadFile(left[0]); err != nil || string(data) != test.kept {
				t.Errorf("kept %q, %v", data, err)
			}
		})
	}
}

// TestMemoryEditWhich needs the memory, and vi only if no editor is named.
func TestMemoryEditWhich(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a")
	cmd, _ := m.editing(t, "exit 0", "edit", "5")
	if status, _, said := run(t, cmd, ""); status != 1 || said != "Error [internal]: there is no memory 5; zino memory list shows those there are\n" {
		t.Errorf("status %d, said %q", status, said)
	}
	for _, test := range []struct{ variable, name string }{{"VISUAL= ", "false"}, {"EDITOR=", "my editor"}, {"VISUAL=no-such-editor", "no-such-editor"}} {
		cmd, _ := m.editing(t, "exit 1", "edit", "0")
		cmd.Env = append(cmd.Env, test.variable)
		if status, _, said := run(t, cmd, ""); status != 1 || !strings.HasPrefix(said, "Error [internal]: the editor ") || !strings.Contains(said, test.name) {
			t.Errorf("%s: status %d, said %q", test.variable, status, said)
		}
	}
	t.Run("vi", func(t *testing.T) {
		w := newWorld(t)
		if err := os.WriteFile(filepath.Join(w.cwd, "vi"), []byte("#!/bin/sh\necho from vi >\"$1\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := w.command("--socket", m.socket, "memory", "edit", "0")
		cmd.Env = append(cmd.Env, "PATH="+w.cwd+":"+os.Getenv("PATH"))
		if status, _, said := run(t, cmd, ""); status != 0 || m.texts()[0] != "from vi" {
			t.Errorf("status %d, said %q, it is %q", status, said, m.texts())
		}
	})
}

func TestMemoryEditTag(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a")
	for _, tag := range []string{"house", ""} {
		m.expect(t, "", []string{"memory", "edit", "0", "--tag", tag}, 0, "", "")
		if m.item(0).Tag != tag || m.texts()[0] != "a" {
			t.Errorf("tag %q, text %q", m.item(0).Tag, m.texts())
		}
	}
	m.expect(t, "", []string{"memory", "edit", "1", "--tag", "x"}, 1, "", "Error [internal]: there is no memory 1; zino memory list shows those there are\n")
}

// TestMemoryEditTerminal gives the editor the terminal, Ctrl-C too, and takes
// it back as it was.
func TestMemoryEditTerminal(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a")
	const script = `trap 'echo struck' INT; test -t 0 && test -t 1 || exit 9
echo ready; until read -r line; do :; done; printf '%s\n' "$line" >"$1"; stty raw -echo`
	cmd, tmp := m.editing(t, script, "edit", "0")
	x := onTerminal(t, cmd)
	x.shows("ready")
	x.types("\x03")
	x.shows("struck")
	x.types("typed\n")
	<-x.ended
	if status := x.cmd.ProcessState.ExitCode(); status != 0 || m.texts()[0] != "typed" || len(drafts(t, tmp)) > 0 {
		t.Errorf("status %d, it is %q, screen %q", status, m.texts(), x.screen())
	}
	if !x.cooked() {
		t.Error("the terminal is still raw")
	}
}

// TestMemoryEditSignal ends the editor, and nothing is left.
func TestMemoryEditSignal(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a")
	cmd, tmp := m.editing(t, `stty raw -echo; echo ready; exec tail -f "$2"`, "edit", "0")
	editor := filepath.Join(cmd.Dir, "ed") // not by way of a shell, which would be told to end instead
	if err := os.Symlink(filepath.Join(cmd.Dir, "my editor"), editor); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "VISUAL="+editor+" --wait")
	x := onTerminal(t, cmd)
	x.shows("ready")
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-x.ended
	if status := x.cmd.ProcessState.ExitCode(); status != exitInterrupted || len(drafts(t, tmp)) > 0 || !x.cooked() {
		t.Errorf("status %d, cooked %v, left %v", status, x.cooked(), drafts(t, tmp))
	}
}

func TestSoft(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t)
	m.expect(t, "", []string{"memory", "soft"}, 0, "", "The soft memory is empty.\n")
	m.expect(t, "", []string{"memory", "soft", "set", "Likes", "short <answers>."}, 0, "", "")
	m.expect(t, "", []string{"memory", "soft"}, 0, "Likes short <answers>.", "")
	m.expect(t, "a\x1b\r\nb\n\n", []string{"memory", "soft", "set", "-"}, 0, "", "")
	m.expect(t, "", []string{"memory", "soft"}, 0, "a\x1b\r\nb\n\n", "")
	m.expect(t, "", []string{"memory", "soft", "set", "-"}, 1, "", "Error [internal]: nothing came on standard input, and nothing was changed\n")
	m.expect(t, "", []string{"memory", "soft", "set", "\xff"}, 1, "", "Error [internal]: that is no text in UTF-8, and nothing was changed: convert it first, for example with iconv\n")
	if m.softText() != "a\x1b\r\nb\n\n" {
		t.Errorf("it is %q", m.softText())
	}
	x := onTerminal(t, newWorld(t).command("--socket", m.socket, "memory", "soft"))
	<-x.ended
	x.shows("a^[^M\r\nb\r\n")
	m.expect(t, "", []string{"memory", "soft", "set", ""}, 0, "", "")
	if m.softText() != "" {
		t.Errorf("it is %q", m.softText())
	}
}

func TestSoftEdit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ before, script, after, said string }{
		{"", `echo new >"$1"`, "new", ""},
		{"", `true`, "", "The text is as it was: nothing was changed.\n"},
		{"a", `echo b >>"$1"`, "a\nb", ""},
		{"a\n", `echo b >>"$1"`, "a\nb\n", ""},
		{"a\n\n", `true`, "a\n\n", "The text is as it was: nothing was changed.\n"},
		{"a", `echo >"$1"`, "a", "The text was emptied: nothing was changed.\n"},
	} {
		m := newFakeMem(t)
		m.with(func() { m.soft = test.before })
		cmd, tmp := m.editing(t, test.script, "soft", "edit")
		status, out, said := run(t, cmd, "")
		if status != 0 || out != "" || said != test.said || m.softText() != test.after || len(drafts(t, tmp)) > 0 {
			t.Errorf("%q %s: status %d, printed %q, said %q, it is %q", test.before, test.script, status, out, said, m.softText())
		}
	}
}
