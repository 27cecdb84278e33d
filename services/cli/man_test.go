package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/cli/command"
)

var update = flag.Bool("update", false, "write docs/man")

// manDir is the directory of the man pages.
const manDir = "../../docs/man"

// TestMan compares the man pages with the commands. With -update it writes them.
func TestMan(t *testing.T) {
	pages := manPages(t)
	if *update {
		writePages(t, pages)
	}
	kept, err := filepath.Glob(manDir + "/*.[15]")
	if err != nil || len(kept) != len(pages) {
		t.Errorf("%d files in docs/man for %d pages, %v: run make generate", len(kept), len(pages), err)
	}
	for name, text := range pages {
		data, err := os.ReadFile(filepath.Join(manDir, name))
		if err != nil || string(data) != text {
			t.Errorf("%s differs from the command, %v: run make generate", name, err)
		}
	}
}

func writePages(t *testing.T, pages map[string]string) {
	t.Helper()
	kept, err := filepath.Glob(manDir + "/*.[15]") // those of section 7 are written by hand
	zinotest.Must(t, err)
	for _, path := range kept {
		zinotest.Must(t, os.Remove(path))
	}
	for name, text := range pages {
		zinotest.Must(t, os.WriteFile(filepath.Join(manDir, name), []byte(text), 0o644))
	}
}

// TestManPages checks for required sections, and for text that depends on the date or
// the host.
func TestManPages(t *testing.T) {
	t.Parallel()
	pages := manPages(t)
	for _, want := range []string{
		"\n.SH FILES\n", "\n.SH ENVIRONMENT\n", "\n.SH EXIT STATUS\n", "\n\\%ZINO_HOME\n", "config.toml\n", `\%ANTHROPIC_API_KEY`, "\n.B 130\n",
		`\fBzino-sessions(1)\fP`, `\fB\-c\fR, \fB\-\-config\fR \fIFILE\fR`, `(default text)`,
	} {
		if !strings.Contains(pages["zino.1"], want) {
			t.Errorf("zino.1 does not contain %q", want)
		}
	}
	for name, text := range pages {
		if name == "zino.toml.5" {
			continue // see TestManConfig
		}
		head, _, _ := strings.Cut(text, "\n")
		title := strings.ToUpper(strings.TrimSuffix(name, ".1"))
		if head != `.TH "`+title+`" "1" "" "Zino" "Zino's commands"` {
			t.Errorf("%s: heading %s", name, head)
		}
		for _, bad := range []string{"\t", "[flags]", "\n\n\n", "[=false]", "INHERITED", os.TempDir(), "\x1b"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s contains %q", name, bad)
			}
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"} {
			if strings.Count(text, "\n.SH "+section+"\n") != 1 {
				t.Errorf("%s: want one section %s", name, section)
			}
		}
	}
}

// TestManConfig checks that every key is documented, with default and comment.
func TestManConfig(t *testing.T) {
	t.Parallel()
	page := manPages(t)["zino.toml.5"]
	for _, s := range config.Default().Settings() {
		if strings.HasPrefix(s.Key, "hooks.") && s.Key != "hooks.foreign" {
			s.Key = "hooks.PreToolUse" // its example stands for all events
		}
		key := s.Key[strings.LastIndexByte(s.Key, '.')+1:]
		if !strings.Contains(page, "\n.B "+roff(key)+" = ") && !strings.Contains(page, "[["+roff(s.Key)+"]]") && !strings.Contains(page, "\n["+roff(s.Key)+".") {
			t.Errorf("%s is not in zino.toml.5", s.Key)
		}
	}
	for _, want := range []string{"\n.SH FILES\n", "\n.SS [exc]\n", "\n.B timeout = 30\nTime limit of executed code in seconds", "\n.EX\n[[rtr.model]]\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("zino.toml.5 does not contain %q", want)
		}
	}
}

// TestManMentions checks the commands and variables of the hand-written page.
func TestManMentions(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(manDir, "zino.7"))
	zinotest.Must(t, err)
	pages := manPages(t)
	for _, name := range regexp.MustCompile(`zino[a-z\\-]*\(\d\)|BR zino[a-z.\\-]* \(\d\)`).FindAllString(string(data), -1) {
		file := strings.NewReplacer("BR ", "", "\\-", "-", " (", ".", "(", ".", ")", "").Replace(name)
		if pages[file] == "" {
			t.Errorf("zino.7 names %s, which does not exist", name)
		}
	}
	for _, service := range append(slices.Clone(config.Services), "repl") {
		if !strings.Contains(string(data), "\n.B zino\\-"+service+"\n") {
			t.Errorf("zino.7 does not contain zino-%s", service)
		}
	}
	for _, level := range proto.Levels {
		if !strings.Contains(string(data), "\n.B "+roff(string(level))+"\n") {
			t.Errorf("zino.7 does not contain the level %s", level)
		}
	}
}

// manPages returns the man pages of all commands and of the configuration, by the
// names of their files.
func manPages(t *testing.T) map[string]string {
	t.Helper()
	root := newCommand(&command.Env{})
	root.DisableAutoGenTag = true
	pages := map[string]string{}
	visit(root, func(cmd *cobra.Command) {
		if cmd != root && (!cmd.IsAvailableCommand() || cmd.Name() == "help") {
			return
		}
		cmd.Long, cmd.Example = literal(cmd.Long), strings.TrimPrefix(strings.ReplaceAll(cmd.Example, "\n  ", "\n"), "  ")
		cmd.DisableFlagsInUseLine = true
		var page bytes.Buffer
		header := &doc.GenManHeader{Section: "1", Date: &time.Time{}, Source: "Zino", Manual: "Zino's commands"}
		zinotest.Must(t, doc.GenMan(cmd, header, &page))
		pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = manPage(cmd, page.String())
	})
	shipped, err := os.ReadFile("../../ZINO.toml")
	zinotest.Must(t, err)
	pages["zino.toml.5"] = manConfig(string(shipped))
	return pages
}

func visit(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		visit(sub, do)
	}
}

// assignment is a line of ZINO.toml that shows a key, commented out or not.
var assignment = regexp.MustCompile(`^#?([a-z_]+) = (.*)$`)

// manConfig makes the page of the configuration from the shipped file.
func manConfig(shipped string) string {
	var b, remark strings.Builder
	b.WriteString(manConfigHead)
	_, shipped, _ = strings.Cut(shipped, "\n\n") // the file's own heading
	b.WriteString(".SS Before the first section\n")
	example := false // in literal lines
	literal := func(on bool) {
		if on != example {
			b.WriteString(map[bool]string{true: ".PP\n.EX\n", false: ".EE\n"}[on])
		}
		example = on
	}
	paragraph := func() {
		if remark.Len() > 0 {
			b.WriteString(".PP\n" + remark.String())
			remark.Reset()
		}
	}
	for line := range strings.Lines(shipped) {
		line = strings.TrimSuffix(line, "\n")
		key := assignment.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "#  "):
			paragraph()
			literal(true)
			b.WriteString(roff(line[3:]) + "\n")
			continue
		case key != nil:
			literal(false)
			if !strings.HasPrefix(line, "#") {
				key[2] = `""` // the shipped file sets only keys without a default
			}
			b.WriteString(".TP\n.B " + roff(key[1]) + " = " + strings.ReplaceAll(roff(key[2]), `"`, `\(dq`) + "\n" + remark.String())
			remark.Reset()
		case strings.HasPrefix(line, "["):
			literal(false)
			paragraph()
			b.WriteString(".SS " + roff(line) + "\n")
		case strings.HasPrefix(line, "# - "):
			remark.WriteString(".br\n\\(bu " + roff(line[4:]) + "\n")
		case strings.HasPrefix(line, "# "):
			remark.WriteString(roff(line[2:]) + "\n")
		case line == "#":
			remark.WriteString(".br\n")
		case line == "":
			literal(false)
			paragraph()
		}
	}
	literal(false)
	paragraph()
	return b.String() + manConfigTail
}

const manConfigHead = `.TH "ZINO.TOML" "5" "" "Zino" "Zino's files"
.nh
.ad l
.SH NAME
zino.toml \- the configuration of Zino
.SH SYNOPSIS
.I ~/.config/zino/config.toml
.br
.I /etc/zino/ZINO.toml
.SH DESCRIPTION
A file in TOML. The host's services read
.IR /etc/zino/ZINO.toml .
Your own services read your
.IR config.toml ,
or the file that
.B \-\-config
or ZINO_CONFIG names. Both files may have all keys.
.PP
A key that is not set has its default, which is shown here. Relative paths are
relative to the directory of the file. An unknown key, a value of a wrong type and
one out of range are errors with file, line and column:
.B zino config check
lists them,
.B zino config edit
opens the file,
.B zino config show
prints which values are in use and where they come from.
.SH KEYS
`

const manConfigTail = `.SH FILES
.TP
.I ~/.config/zino/config.toml
Your configuration.
.TP
.I /etc/zino/ZINO.toml
The configuration of the host's services.
.TP
.I ZINO.toml
In the current directory: only its model, personality and template are used.
.SH SEE ALSO
.BR zino (1),
.BR zino\-config (1),
.BR zino (7)
`

// literal keeps indented lines of a text unchanged.
func literal(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "  ") {
			line = "  " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// manPage edits a generated page: it removes the date, reformats the options and adds
// sections before the last one.
func manPage(cmd *cobra.Command, page string) string {
	head, rest, _ := strings.Cut(strings.TrimPrefix(page, ".nh\n"), "\n.SH ")
	out := strings.Replace(head, `"Jan 0001"`, `""`, 1) + "\n.nh\n.ad l"
	for section := range strings.SplitSeq(rest, "\n.SH ") {
		title, body, _ := strings.Cut(section, "\n")
		switch {
		case strings.HasPrefix(title, "OPTIONS INHERITED"):
			continue
		case title == "OPTIONS":
			body = manOptions(cmd)
			if !cmd.HasParent() {
				out += manCommands(cmd)
			}
		case title == "SEE ALSO" && !cmd.HasParent():
			out += manSections
			body = `\fBzino.toml(5)\fP, \fBzino(7)\fP, ` + body
		case title == "SEE ALSO" && cmd.Parent().HasParent():
			body = `\fBzino(1)\fP, ` + body
		}
		out += "\n.SH " + title + "\n" + strings.TrimSpace(body) + "\n"
	}
	out = strings.NewReplacer("\n.EX\n", "\n.PP\n.RS 2\n.EX\n", "\n.EE\n", "\n.EE\n.RE\n").Replace(out)
	out = strings.Replace(out, "\n.SH EXAMPLE\n.PP\n", "\n.SH EXAMPLE\n", 1)
	out = variables.ReplaceAllString(out, `\%$0`)
	return strings.ReplaceAll(out, "\n\n", "\n")
}

// manCommands lists the commands of zino in their groups.
func manCommands(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("\n.SH COMMANDS\n")
	for _, group := range root.Groups() {
		b.WriteString(".SS " + strings.TrimSuffix(group.Title, ":") + "\n")
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID && cmd.Name() != "help" {
				b.WriteString(".TP\n.BR zino\\-" + roff(cmd.Name()) + " (1)\n" + roff(cmd.Short) + "\n")
			}
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// variables are names that must not be hyphenated.
var variables = regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+\b`)

// manOptions returns the options of a command, without those of zino.
func manOptions(cmd *cobra.Command) string {
	var b strings.Builder
	cmd.NonInheritedFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(flag)
		b.WriteString(".TP\n")
		if flag.Shorthand != "" {
			b.WriteString(`\fB\-` + flag.Shorthand + `\fR, `)
		}
		b.WriteString(`\fB\-\-` + roff(flag.Name) + `\fR`)
		if value != "" {
			b.WriteString(` \fI` + roff(value) + `\fR`)
		}
		if d := flag.DefValue; d != "" && d != "0" && d != "false" {
			usage += " (default " + d + ")"
		}
		b.WriteString("\n" + roff(usage) + "\n")
	})
	if cmd.HasParent() {
		b.WriteString(".PP\nThe options of\n.BR zino (1)\nmay be given too.\n")
	}
	return b.String()
}

// roff escapes a text for the formatter.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

// manSections are the sections that only zino.1 has.
const manSections = `
.SH CHAT
Each line that you type is a turn.
.TP
.B \e \fRat the end of a line
The message goes on in the next line. A paste of several lines is one message.
.TP
.B Up\fR, \fBDown
Earlier lines, those of earlier chats included.
.TP
.B Ctrl\-A\fR, \fBCtrl\-E
To the beginning or the end of the line.
.TP
.B Ctrl\-W\fR, \fBCtrl\-U\fR, \fBCtrl\-K
Delete a word, the line, or the rest of the line.
.TP
.B Ctrl\-C
Stop the answer. At the prompt: clear the line; twice: leave.
.TP
.B Ctrl\-D\fR, \fB:q\fR, \fB/quit
Leave.
.TP
.B /help
Show the keys.
.SH EXIT STATUS
.TP
.B 0
It was done.
.TP
.B 1
An error: of a model's provider, a tool, a session, the configuration.
.TP
.B 2
A mistake on the command line. Nothing was done.
.TP
.B 130
It was interrupted.
.SH ENVIRONMENT
.TP
ZINO_HOME
The directory of the user's files, in place of
.IR ~/.config/zino .
Where it is not set ZDX_HOME means the same; where neither is, the directory is
.I zino
in XDG_CONFIG_HOME.
.TP
ZINO_CONFIG
A configuration file, as with
.BR \-\-config .
.TP
XDG_RUNTIME_DIR
Where the sockets lie.
.TP
ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY
Keys of providers. See
.BR zino\-auth (1).
.TP
ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GEMINI_BASE_URL, OPENROUTER_BASE_URL, OLLAMA_HOST
Where the providers are asked, in place of their own addresses.
.TP
ZINO_LOG_LEVEL
DEBUG, INFO, WARN or ERROR: what the services log.
.TP
VISUAL, EDITOR
The editor of
.B zino memory edit
and
.BR "zino memory soft edit" .
.TP
NO_COLOR, TERM
If NO_COLOR is set, or TERM is
.IR dumb ,
nothing is coloured and nothing moves.
.SH FILES
.TP
.I ~/.config/zino/config.toml
The user's configuration. See
.BR zino\-config (1).
.TP
.I ~/.config/zino/keys/
Keys that
.B zino auth
keeps.
.TP
.I ~/.config/zino/sessions/
Sessions, a file of JSON lines each. See
.BR zino\-sessions (1).
.TP
.IR ~/.config/zino/AGENTS.md ", " AGENTS.md
What the model is told of the user, and of the project in
.B \-\-root
and the directories above it.
.TP
.IR ~/.config/zino/SYSTEM.md ", " SESSION.md
The templates of the system prompt: of plain messages, and of chat and
.BR "zino exec" .
Where they are missing those of the installation are used
.RI ( share/zino
below its prefix).
.TP
.IR ~/.config/zino/tools/ ", " ~/.config/zino/skills/
Definitions of tools and skills, as JSON files.
.TP
.IR ~/.config/zino/data/ ", " ~/.config/zino/log/
Memories, histories of channels, what was used of models; the log of services
that were started for one run.
.TP
.I ~/.config/zino/chat_history
Lines that were typed in a chat.
.TP
.I $XDG_RUNTIME_DIR/zino/daemon.sock
The socket of the user's own services.
.TP
.I /run/zino/daemon.sock
The socket of the host's services.
.TP
.IR debug.md ", " debug/
Where
.B zino repl
was started, and in
.I ~/.config/zino/repl/
for
.BR "zino up" :
the live pages, a file for each, and what was too long for that file. See
.BR zino\-repl (1).
.TP
.I ZINO.toml
In the current directory: its model, personality and template are used, and
nothing else of it.
`
