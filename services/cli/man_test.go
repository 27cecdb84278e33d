package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/man anew")

// manDir is where the man pages are kept.
const manDir = "../../docs/man"

// TestMan holds the man pages and the commands together. With -update it writes
// the pages anew.
func TestMan(t *testing.T) {
	pages := manPages(t)
	if *update {
		writePages(t, pages)
	}
	kept, err := filepath.Glob(manDir + "/*")
	if err != nil || len(kept) != len(pages) {
		t.Errorf("there are %d files in docs/man and %d commands, %v: run make generate", len(kept), len(pages), err)
	}
	for name, text := range pages {
		data, err := os.ReadFile(filepath.Join(manDir, name))
		if err != nil || string(data) != text {
			t.Errorf("%s is not what the command says, %v: run make generate", name, err)
		}
	}
}

func writePages(t *testing.T, pages map[string]string) {
	t.Helper()
	if err := os.RemoveAll(manDir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(manDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(manDir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManPages looks for what a reader needs, and for what differs from one
// day or place to the next.
func TestManPages(t *testing.T) {
	t.Parallel()
	pages := manPages(t)
	for _, want := range []string{
		"\n.SH FILES\n", "\n.SH ENVIRONMENT\n", "\n.SH EXIT STATUS\n", "\n\\%ZINO_HOME\n", "config.toml\n", `\%ANTHROPIC_API_KEY`, "\n.B 130\n",
		`\fBzino-sessions(1)\fP`, `\fB\-c\fR, \fB\-\-config\fR \fIFILE\fR`, `(default text)`,
	} {
		if !strings.Contains(pages["zino.1"], want) {
			t.Errorf("zino.1 does not have %q", want)
		}
	}
	for name, text := range pages {
		head, _, _ := strings.Cut(text, "\n")
		title := strings.ToUpper(strings.TrimSuffix(name, ".1"))
		if head != `.TH "`+title+`" "1" "" "Zino" "Zino's commands"` {
			t.Errorf("%s begins with %s", name, head)
		}
		for _, bad := range []string{"\t", "[flags]", "\n\n\n", "[=false]", "INHERITED", os.TempDir(), "\x1b"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"} {
			if strings.Count(text, "\n.SH "+section+"\n") != 1 {
				t.Errorf("%s has not one section %s", name, section)
			}
		}
	}
}

// manPages are the man pages of all commands, by the names of their files.
func manPages(t *testing.T) map[string]string {
	t.Helper()
	root := (&app{}).command()
	root.DisableAutoGenTag = true
	pages := map[string]string{}
	every(root, func(cmd *cobra.Command) {
		if cmd != root && (!cmd.IsAvailableCommand() || cmd.Name() == "help") {
			return
		}
		cmd.Long, cmd.Example = literal(cmd.Long), strings.TrimPrefix(strings.ReplaceAll(cmd.Example, "\n  ", "\n"), "  ")
		cmd.DisableFlagsInUseLine = true
		var page bytes.Buffer
		header := &doc.GenManHeader{Section: "1", Date: &time.Time{}, Source: "Zino", Manual: "Zino's commands"}
		if err := doc.GenMan(cmd, header, &page); err != nil {
			t.Fatal(err)
		}
		pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = manPage(cmd, page.String())
	})
	return pages
}

// literal has indented lines of a text stay as they are.
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

// manPage is a page as the generator makes it, without the day, with options in
// the usual form, and with sections of our own before the last one.
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
		case title == "SEE ALSO" && !cmd.HasParent():
			out += manSections
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

// variables are names that must not be hyphenated.
var variables = regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+\b`)

// manOptions are the options of a command. Those of zino stand in its page.
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

// roff is a text with what the formatter would act on escaped.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

// manSections are the sections that only zino.1 has.
const manSections = `
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
the live pages, and a file for each. See
.BR zino\-repl (1).
.TP
.I ZINO.toml
In the current directory: its model, personality and template are used, and
nothing else of it.
`
