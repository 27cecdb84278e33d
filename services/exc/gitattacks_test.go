package exc

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// evil is a program that confined code writes and that only the user's git can
// be made to run: $OUT lies outside of the root.
const evil = `printf '#!/bin/sh\ntouch %s/pwned\n' >evil; chmod 755 evil; P=$PWD/evil
`

// gitAttacks have the user's next git command run a program of their choice.
var gitAttacks = []struct {
	name   string
	before string      // what the user did, in a new repository with one commit
	code   string      // the attack as a command
	writes [][2]string // and by the tool write; "EVIL" stands for the program
	in     string      // where the user then works; empty: in the root
}{
	{
		name: "gitlink with a repository of its own",
		code: `mkdir lib && cd lib && git init -q . && git config user.email x@x && git config user.name x && git commit -q --allow-empty -m x && git config core.fsmonitor "$P" && H=$(git rev-parse HEAD)
cd .. && git update-index --add --cacheinfo 160000,$H,lib`,
		writes: [][2]string{{"lib/.git/HEAD", "ref: refs/heads/main\n"}, {"lib/.git/refs/x", ""}, {"lib/.git/objects/x", ""}, {"lib/.git/config", "[core]\n\tfsmonitor = EVIL\n"}},
		in:     "lib",
	},
	{
		name:   "pointer file of a submodule",
		before: `git init -q ../sub && git -C ../sub commit -q --allow-empty -m x && git -c protocol.file.allow=always submodule --quiet add ../sub lib && git commit -q -m sub`,
		code:   `cp -r .git/modules/lib new && printf '[core]\n\tbare = false\n\tworktree = ../lib\n\tfsmonitor = %s\n' "$P" >new/config; printf 'gitdir: ../new\n' >lib/.git`,
		writes: [][2]string{{"lib/.git", "gitdir: ../new\n"}, {".git/modules/lib/config", "[core]\n\tworktree = ../../../lib\n\tfsmonitor = EVIL\n"}},
	},
	{
		name:   "hooks in the work tree",
		before: `mkdir .husky && git config core.hooksPath .husky`,
		code:   `cp evil .husky/pre-commit`,
		writes: [][2]string{{".husky/pre-commit", "#!EVIL\n"}},
	},
	{
		name:   "hooks in the work tree, not yet there",
		before: `git config core.hooksPath .husky/_`,
		code:   `mkdir -p .husky/_; cp evil .husky/_/pre-commit`,
		writes: [][2]string{{".husky/_/pre-commit", "#!EVIL\n"}},
	},
	{
		name:   "hooks that husky leads to",
		before: `mkdir -p .husky/_; printf '#!/bin/sh\n. "$(dirname "$0")/../pre-commit"\n' >.husky/_/pre-commit; chmod 755 .husky/_/pre-commit; echo true >.husky/pre-commit; git config core.hooksPath .husky/_`,
		code:   `cp evil .husky/pre-commit`,
		writes: [][2]string{{".husky/pre-commit", "EVIL\n"}},
	},
	{
		name:   "hooks as a link",
		before: `rm -rf .git/hooks; mkdir githooks; ln -s ../githooks .git/hooks`,
		code:   `cp evil githooks/pre-commit`,
		writes: [][2]string{{"githooks/pre-commit", "#!EVIL\n"}},
	},
	{
		name:   "included settings",
		before: `echo '[user]' >git.inc; git config include.path ../git.inc`,
		code:   `printf '[core]\n\tfsmonitor = %s\n' "$P" >git.inc`,
		writes: [][2]string{{"git.inc", "[core]\n\tfsmonitor = EVIL\n"}},
	},
	{
		name:   "settings included by condition, not yet there",
		before: `git config "includeIf.gitdir:**.path" ../git.inc`,
		code:   `printf '[core]\n\tfsmonitor = %s\n' "$P" >git.inc`,
		writes: [][2]string{{"git.inc", "[core]\n\tfsmonitor = EVIL\n"}},
	},
	{
		name:   "a program of the settings",
		before: `printf '#!/bin/sh\ncat\n' >clean.sh; chmod 755 clean.sh; echo '*.txt filter=c' >.gitattributes; git config filter.c.clean ./clean.sh; git add .; git commit -q -m c`,
		code:   `cp evil clean.sh; echo x >>a.txt`,
		writes: [][2]string{{"clean.sh", "#!EVIL\n"}, {"a.txt", "y\n"}},
	},
	{
		name:   "a root that is a bare repository",
		before: `rm -rf .git`,
		code:   `git init -q --bare . && git config core.bare false && git config core.worktree "$PWD" && git config core.fsmonitor "$P"`,
		writes: [][2]string{{"refs/x", ""}, {"objects/x", ""}, {"config", "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = EVIL\n"}, {"HEAD", "ref: refs/heads/main\n"}},
	},
	{
		name:   "a bare repository that leads elsewhere",
		before: `rm -rf .git`,
		code:   `git init -q --bare there; mv there/HEAD there/config .; printf 'there\n' >commondir; printf '[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = %s\n' "$P" >there/config`,
		writes: [][2]string{{"there/refs/x", ""}, {"there/objects/x", ""}, {"there/config", "[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = EVIL\n"}, {"commondir", "there\n"}, {"HEAD", "ref: refs/heads/main\n"}},
	},
	{
		name: "a bare repository further down",
		code: `git init -q --bare deep/er && cd deep/er && git config core.bare false && git config core.worktree "$PWD" && git config core.fsmonitor "$P"`,
		in:   "deep/er",
	},
	{
		name:   "a repository further down",
		code:   `mkdir -p deep/er && cd deep/er && git init -q . && git config core.fsmonitor "$P"`,
		writes: [][2]string{{"deep/er/.git/refs/x", ""}, {"deep/er/.git/objects/x", ""}, {"deep/er/.git/config", "[core]\n\tfsmonitor = EVIL\n"}, {"deep/er/.git/HEAD", "ref: refs/heads/main\n"}},
		in:     "deep/er",
	},
	{
		name: "a pointer file further down",
		code: `git init -q --bare store; printf '[core]\n\tfsmonitor = %s\n' "$P" >store/config; mkdir deep; printf 'gitdir: ../store\n' >deep/.git`,
		in:   "deep",
	},
	{
		name:   "a repository that was there",
		before: `mkdir deep; git init -q deep`,
		code:   `git -C deep config core.fsmonitor "$P"; mv deep d; cp -r d deep; git -C deep config core.fsmonitor "$P"`,
		writes: [][2]string{{"deep/.git/config", "[core]\n\tfsmonitor = EVIL\n"}},
		in:     "deep",
	},
	{
		name:   "a work tree's repository below the root",
		before: `git worktree add -q wt -b wt`,
		code:   `printf '[core]\n\tfsmonitor = %s\n' "$P" >.git/worktrees/wt/config.worktree; git config extensions.worktreeConfig true; git init -q --bare store; printf '[core]\n\tfsmonitor = %s\n' "$P" >store/config; printf 'gitdir: ../store\n' >wt/.git`,
		writes: [][2]string{{"wt/.git", "gitdir: ../evil\n"}},
		in:     "wt",
	},
	{
		name:   "the repository as a directory beside it",
		before: `mv .git .bare; printf 'gitdir: .bare\n' >.git`,
		code:   `git config core.fsmonitor "$P"; printf '[core]\n\tfsmonitor = %s\n' "$P" >>.bare/config; cp evil .bare/hooks/pre-commit`,
		writes: [][2]string{{".bare/config", "[core]\n\tfsmonitor = EVIL\n"}, {".bare/hooks/pre-commit", "#!EVIL\n"}},
	},
	{
		name:   "settings and hooks",
		code:   `git config core.fsmonitor "$P"; cp evil .git/hooks/pre-commit; mv .git g; cp -r g .git; git config core.fsmonitor "$P"`,
		writes: [][2]string{{".git/config", "[core]\n\tfsmonitor = EVIL\n"}, {".git/hooks/pre-commit", "#!EVIL\n"}, {".git/modules/x/config", "x"}},
	},
	{
		name:   "settings by another name",
		before: `ln .git/config settings`,
		code:   `printf '[core]\n\tfsmonitor = %s\n' "$P" >>settings`,
		writes: [][2]string{{"settings", "[core]\n\tfsmonitor = EVIL\n"}},
	},
}

// userGit is what the user does after a run, in a directory.
const userGit = `cd "$IN" 2>/dev/null; (git status; git diff; git add -A; git commit -m x) 2>&1 || true; (cd "$DIR"; git status; git diff; git add -A; git commit -m x) 2>&1 || true`

// No program that confined code chose runs with the user's next git command,
// whether a command or a tool wrote it.
func TestGitAttacks(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, writableLevels, func(t *testing.T, level proto.Level) {
		for _, tt := range gitAttacks {
			for _, tool := range []string{"bash", "write"} {
				out := zinotest.Dir(t)
				root := filepath.Join(out, "root")
				zinotest.Must(t, os.Mkdir(root, 0o700))
				a.host.protected = nil
				shellIn(t, root, "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x\ngit init -q . && git config user.name x && git config user.email x@x && echo x >a.txt && git add . && git commit -q -m x\n"+tt.before)
				var said string
				if tool == "bash" {
					said = a.toolIn(t, a.at(level), root, "bash", in{"command": fmt.Sprintf(evil, out) + tt.code})
				} else {
					zinotest.Must(t, os.WriteFile(out+"/evil", fmt.Appendf(nil, "#!/bin/sh\ntouch %s/pwned\n", out), 0o700))
					for _, file := range tt.writes {
						said += a.toolIn(t, a.at(level), root, "write", in{"path": file[0], "content": strings.ReplaceAll(file[1], "EVIL", out+"/evil")}) + "\n"
					}
				}
				did := shellIn(t, root, fmt.Sprintf("IN=%q\n", filepath.Join(root, cmp.Or(tt.in, ".")))+userGit)
				if exists(out + "/pwned") {
					t.Errorf("%s by %s: the user's git ran it\n%s\n%s", tt.name, tool, said, did)
				}
				t.Logf("%s by %s: %s", tt.name, tool, said)
			}
		}
	})
}
