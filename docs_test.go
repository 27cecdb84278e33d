package zino_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// answers maps prompts of commands in the documentation, which are the last line of the
// screen, to the text to type.
var answers = []struct {
	asked *regexp.Regexp
	typed string
}{
	{regexp.MustCompile(`(?i)\bkey\b.*: ?$`), "sk-test-of-the-docs"},
	{regexp.MustCompile(`\[s\]how: ?$`), "y"},
	{regexp.MustCompile(`^(YOLO · )?claude-sonnet-5-5 · .* %$`), ":q"}, // the status line of a chat
}

// TestDocCommands types every command of the sh blocks of the README and other pages into
// a terminal, in order, with an empty home that has the files of blocks with a path behind
// their language. Each must succeed.
func TestDocCommands(t *testing.T) {
	for name, check := range map[string]func(*testing.T, *zinotest.Screen, *fakellm.Server){
		"README.md":           checkFirstExample,
		"docs/quick-start.md": checkFirstBug,
		"docs/acp.md":         shows(`"zino"`),
		"docs/commands.md":    checkCommands,
		"docs/hooks.md":       checkHooks,
		"docs/mcp.md":         shows("  now: Tells the time.", `{"ok":true,"data":{"text":"noon in CET and UTC"}}`, "clock  user  stdio  idle  1 tool  2025-11-25", "It is noon in Oslo."),
		"docs/trust.md":       checkTrust,
		"docs/images.md":      checkImages,
		"docs/schema.md":      checkSchema,
		"docs/skills.md":      checkFirstSkill,
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			turns, err := fakellm.Load("testdata/docs/provider.txt")
			zinotest.Must(t, err)
			provider := fakellm.New(turns...)
			defer provider.Close()
			provider.SetModels("claude-sonnet-5-5")
			path := os.Getenv("PATH")
			env := append(goEnv(t), "ANTHROPIC_BASE_URL="+provider.Host, "PS1=[$?] ")
			if name != "README.md" && name != "docs/quick-start.md" { // those two install it, and store a key
				path, env = path+":"+bin, append(env, "ANTHROPIC_API_KEY=sk-test-of-the-docs")
			}
			s := zinotest.NewUserScreen(t, bin, append(env, "PATH="+path)...)
			tree, err := os.Getwd()
			zinotest.Must(t, err)
			runLine(t, s, "cd "+tree)
			lines, files := blocks(t, name)
			if len(lines) == 0 {
				t.Fatalf("no sh block in %s", name)
			}
			for path, content := range files {
				zinotest.Write(t, filepath.Join(s.Dir, "home", path), content)
			}
			for _, line := range lines {
				runLine(t, s, line)
			}
			t.Log(s.History())
			check(t, s, provider)
			for i, r := range provider.Requests() {
				if err := r.Legal(); r.Method == "POST" && err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
		})
	}
}

// goEnv returns the go command's settings, whose defaults are below the home.
func goEnv(t *testing.T) (env []string) {
	t.Helper()
	names := []string{"GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	zinotest.Must(t, err)
	for i, value := range strings.Split(strings.TrimRight(string(out), "\n"), "\n") {
		env = append(env, names[i]+"="+value)
	}
	return env
}

// blocks returns the lines of the sh blocks of a Markdown file, and the contents of blocks
// with a path below ~ behind their language.
func blocks(t *testing.T, name string) (lines []string, files map[string]string) {
	t.Helper()
	files = map[string]string{}
	shell, file := false, ""
	for line := range strings.SplitSeq(zinotest.Read(t, name), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			_, file, _ = strings.Cut(line, " ~/")
			shell = line == "```sh"
		case shell:
			lines = append(lines, line)
		case file != "":
			files[file] += line + "\n"
		}
	}
	return lines, files
}

// runLine types a command at the shell's prompt, answers its questions, waits
// for the next prompt, and fails the test unless the exit status is 0.
func runLine(t *testing.T, s *zinotest.Screen, line string) {
	t.Helper()
	prompt := regexp.MustCompile(`(?m)^\[(\d+)\] `)
	prompts := func(text string) int { return len(prompt.FindAllString(text+" ", -1)) }
	before := prompts(s.History())
	s.Enter(line)
	last, text := regexp.MustCompile(`^\[(\d+)\] ?$`), ""
	open := slices.Clone(answers) // a chat draws its last line again and again
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("after %s:\n%s", line, text)
		}
	})
	zinotest.EventuallyIn(t, 20*time.Minute, "the end of "+line, func() bool {
		text = s.History()
		end := text[strings.LastIndexByte(text, '\n')+1:]
		if m := last.FindStringSubmatch(end); m != nil && prompts(text) > before {
			if m[1] != "0" {
				t.Errorf("%s: exit status %s", line, m[1])
			}
			return true
		}
		for i, a := range open {
			if a.asked.MatchString(end) {
				open = slices.Delete(open, i, i+1)
				s.Enter(a.typed)
				break
			}
		}
		return false
	})
}

// checkFirstExample checks that the plain message of the README was sent with its prompt
// and tools, that its tool ran, and that exec used the prompt of sessions.
func checkFirstExample(t *testing.T, s *zinotest.Screen, provider *fakellm.Server) {
	var plain, session, ran bool
	for _, r := range provider.Requests() {
		body := string(r.Body)
		if strings.Contains(body, "filling /var") {
			plain = plain || strings.Contains(body, "execute_bash") && strings.Contains(body, `"system"`) && !strings.Contains(body, "%%TOOL_LIST%%")
			ran = ran || strings.Contains(body, "/var\\n") && strings.Contains(body, "tool_response")
		}
		session = session || strings.Contains(body, "Find out why") && strings.Contains(body, `"system"`) && strings.Contains(body, "zino-demo")
	}
	if !plain || !ran || !session {
		t.Errorf("plain prompt with tools: %v, its tool ran: %v, prompt of the session: %v\n%s", plain, ran, session, s.History())
	}
	checkMean(t, filepath.Join(s.Dir, "home", "zino-demo"))
}

func checkFirstBug(t *testing.T, s *zinotest.Screen, provider *fakellm.Server) {
	checkMean(t, filepath.Join(s.Dir, "home", "first-bug"))
	zinotest.Contains(t, "the terminal", s.History(), "-    return sum(xs) / len(xs) + 1", "the test passes.", "Go on with: zino sessions resume")
}

// shows returns a check for texts on the terminal.
func shows(want ...string) func(*testing.T, *zinotest.Screen, *fakellm.Server) {
	return func(t *testing.T, s *zinotest.Screen, _ *fakellm.Server) {
		zinotest.Contains(t, "the terminal", s.History(), want...)
	}
}

func checkCommands(t *testing.T, s *zinotest.Screen, provider *fakellm.Server) {
	zinotest.Contains(t, "the terminal", s.History(), "It prints a greeting.")
	want := "Today is " + time.Now().Format(time.DateOnly) + `. Explain hello.py to a beginner: @hello.py\n\nContents of hello.py:\n`
	zinotest.Contains(t, "the request", string(provider.Requests()[0].Body), want)
}

func checkTrust(t *testing.T, s *zinotest.Screen, _ *fakellm.Server) {
	list := "STATE    FILE                     BRINGS\nchanged  .mcp.json                1 MCP server: other\ntrusted  .claude/commands/fix.md  command /fix: Fixes an issue\n"
	zinotest.Contains(t, "the terminal", s.History(), "1 MCP server (.mcp.json: clock), 1 command.", "Issue 12 is fixed.", list)
	zinotest.Contains(t, "the page", zinotest.Read(t, "docs/trust.md"), list)
}

func checkHooks(t *testing.T, s *zinotest.Screen, _ *fakellm.Server) {
	zinotest.Contains(t, "the terminal", s.History(), "  stderr: Use rg in place of grep.", "Decision: deny: Use rg in place of grep.", "guard.py (user): exit 0", "Decision: none")
}

// checkImages checks that each request of docs/images.md has the image, and the answers.
func checkImages(t *testing.T, s *zinotest.Screen, provider *fakellm.Server) {
	requests := provider.Requests()
	if len(requests) != 3 {
		t.Fatalf("%d requests", len(requests))
	}
	for i, r := range requests {
		zinotest.Must(t, r.Legal())
		if !strings.Contains(string(r.Body), `"type":"image"`) {
			t.Errorf("request %d has no image", i)
		}
	}
	zinotest.Contains(t, "screen", s.History(), "White, as far as I see.", "White again.")
}

func checkSchema(t *testing.T, s *zinotest.Screen, _ *fakellm.Server) {
	zinotest.Contains(t, "the terminal", s.History(), `{"name":"Ada Lovelace","year":1843}`, "\nAda Lovelace\n")
}

func checkFirstSkill(t *testing.T, s *zinotest.Screen, _ *fakellm.Server) {
	list := "entry  folder  user    ok "
	zinotest.Contains(t, "the terminal", s.History(), "1 skill, 0 broken, 0 warnings", list, "Fixed: the mean of a list is right.")
	zinotest.Contains(t, "the page", zinotest.Read(t, "docs/skills.md"), list)
}

func checkMean(t *testing.T, dir string) {
	t.Helper()
	if text := zinotest.Read(t, filepath.Join(dir, "mean.py")); strings.Contains(text, "+ 1") {
		t.Errorf("mean.py is not repaired:\n%s", text)
	}
}

// TestDocLinks checks that the file, and the heading, of every relative link of the
// documentation exists.
func TestDocLinks(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	zinotest.Must(t, err)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	checked := 0
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
		for _, m := range link.FindAllStringSubmatch(zinotest.Read(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			checked++
			file, heading, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(page), file)
			if file == "" {
				target = page
			}
			text, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr != nil || err != nil && !info.IsDir() {
				t.Errorf("%s links to %s: %v", page, m[1], statErr)
			} else if heading != "" && !hasHeading(string(text), heading) {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d links were checked", checked)
	}
}

// hasHeading reports whether a Markdown text has a heading with this anchor.
func hasHeading(text, anchor string) bool {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.SplitSeq(text, "\n") {
		if rest := strings.TrimLeft(line, "#"); rest != line {
			name := strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(rest)), ""), " ", "-")
			if name == anchor {
				return true
			}
		}
	}
	return false
}

// TestDocChat checks that docs/chat.md has the commands and keys as the chat prints them,
// and the keys of [chat] with their defaults as in ZINO.toml.
func TestDocChat(t *testing.T) {
	t.Parallel()
	s, _ := newChat(t)
	s.Tmux("resize-window", "-x", "120", "-y", "70")
	doc := zinotest.Read(t, "docs/chat.md")
	for _, c := range []struct{ command, last string }{{"/help", "  //TEXT "}, {"/help keys", "  Ctrl-L "}} {
		s.Enter(c.command)
		s.Eventually("the end of "+c.command, func(text string) bool {
			_, text, _ = strings.Cut(text, "> "+c.command+"\n")
			return strings.Contains(text, c.last) && strings.Contains(text, "\n>\n")
		})
		_, printed, _ := strings.Cut(s.History(), "> "+c.command+"\n")
		printed = strings.TrimLeft(printed, "\n")
		printed = printed[:strings.Index(printed, "\n\n")+1]
		pattern := regexp.MustCompile(`(?s)(<!-- the output of ` + c.command + `[; ].*?-->\n` + "```text\n)(.*?)(```\n)")
		block := pattern.FindStringSubmatch(doc)
		if block == nil {
			t.Fatalf("docs/chat.md has no output of %s", c.command)
		}
		if *update {
			doc = strings.Replace(doc, block[0], block[1]+printed+block[3], 1)
		} else if block[2] != printed {
			t.Errorf("docs/chat.md has another output of %s (go test . -run TestDocChat -update writes it):\n%s", c.command, printed)
		}
	}
	if *update {
		zinotest.Must(t, os.WriteFile("docs/chat.md", []byte(doc), 0o644))
	}
	s.Tmux("send-keys", "C-d")
	s.Shows("", shell)

	_, section, _ := strings.Cut(zinotest.Read(t, "ZINO.toml"), "\n[chat]\n")
	section, _, _ = strings.Cut(section, "\n[")
	keys := regexp.MustCompile(`(?m)^#(\w+) = (.+)$`).FindAllStringSubmatch(section, -1)
	for _, key := range keys {
		if row := "| `" + key[1] + "` | `" + key[2] + "` |"; !strings.Contains(doc, row) {
			t.Errorf("docs/chat.md has no row that begins with %s", row)
		}
	}
	if len(keys) < 9 {
		t.Errorf("only %d keys of [chat] in ZINO.toml", len(keys))
	}
}
