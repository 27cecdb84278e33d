package gate

// allowedLines are command lines of which rules can allow every part: what runs is known.
var allowedLines = []string{
	// words and quoting
	"git status", "  git   status  ", `g\it status`, `'git' status`, `"git" "status"`, `g"i"t st'at'us`, `\git status`, `gi\
t status`, `git "a b" 'c d' e\ f`, `git ''`, `git "" x`, `git a\*b`, `git 'a*b' "?" '[x]'`, `git "a\"b\\c\$d"`, `git 'a\b'`, `git # comment`,
	`git a#b`, "git \\\\", `git "$x"`, `git $x y`, `git *`, `git [a]`, `git ~`, `git a=~/b`, `git {a,b}`, `git a{1..3}`, `git {}`, `git HEAD@{1}`, `git -- -x`, `git "${x}"`,
	`git ${x:-y}`, `git ${x#y}`, `git $((1+2))`, `git $(ls)`, "git `ls`", "git \"`ls -l`\"", `git "$(ls "$(cat x)")"`, `git é`, `git %x`, `git a^b`, `git !x`, `git =x`, `git a'b'"c"\d`, `git "'"`, `git '"'`, "git \"a\nb\"", "git 'a\nb'", `git "\a"`,
	// lists, pipelines, groups
	"git status; ls", "git status && ls -l || cat x", "git status & ls", "ls | cat | git x", "! ls", "( ls; cat x )", "{ ls; cat x; }", "( ( ls ) )", "ls\ncat x\n", "ls;\n", "ls &", "ls && ! cat x", "ls |\ncat", "ls &&\n cat x",
	// compound commands
	"if ls; then cat x; else git y; fi", "if ls; then cat x; elif git y; then git z; fi", "while ls x; do git y; break; done", "until ls; do git x; break; done", `for i in a b; do git "$i"; done`, `for i in $(ls); do cat "$i"; done`, `for i; do git x; done`, "case x in x) ls;; *) cat x;; esac", "case $(ls) in a|b) cat x;; esac", `case "$x" in "$(cat y)") ls;; esac`, "for i in a b\ndo\ngit $i\ndone",
	// assignments of the list
	"LC_ALL=C git status", "TZ=UTC LANG=C ls", "GOFLAGS=-v GOOS=linux git x", "CI=1; ls", "NO_COLOR=$(cat x) git y", "export LANG=C; ls", `TERM="$(ls)" git x`,
	// redirections
	"ls > out", "ls >> out 2>&1", "ls 2>/dev/null", "ls >/dev/null 2>&1 </dev/null", "cat < in", "cat <in >out", "ls >| out", "ls 2>&-", "cat 3<in <&3", "> out", "ls > 'a b'", "{ ls; } > out", "( ls ) >> out", "while ls x; do cat; break; done < in > out",
	"cat <<E\ntext\nE\n", "cat <<E\n$(ls)\nE\n", "cat <<'E'\n$(rm x)\nE\n", "cat <<\"E\"\n`rm x`\nE\n", "cat <<-E\n\t`ls`\n\tE\n", "cat <<\\E\n$(rm x)\nE\n", "cat <<A; git <<B\n$(ls a)\nA\n$(ls b)\nB\n", "cat <<E | git x\ny\nE\n", "cat <<E\n\\$(rm x) \\`rm x\\`\nE\n",
	// substitutions in all places
	`git "${x:-$(ls)}"`, `git ${x:-$(ls)}`, "git ${x:+`ls`}", "git $(ls; cat x)", "git $( (ls) )", "git \"$(ls 'a)b')\"", "git $(cat <<E\nx\nE\n)", "git `echo \\`ls\\``", "git $(# comment\nls\n)", "ls ${#x}", "git \"${x%%\"$(ls)\"}\"", "git $(case x in x) ls;; esac)",
	// wrappers
	"env git status", "env LC_ALL=C git status", "env -i git x", "env -u HOME git x", "env -- git x", "/usr/bin/env git x", "env LANG=C env TZ=UTC git x", "env", "nice git x", "nice -n 5 git x", "nice -5 git x", "nice --adjustment=5 git x", "nohup git x", "timeout 5 git x", "timeout -s KILL -k 1 5 git x", "timeout --signal=TERM --foreground 5 git x", "stdbuf -oL git x", "stdbuf -o L -e 0 git x", "command git x", "command -p ls", "command -v git", "exec git x", "exec ls > out", "time git x", "time -p git x", "env nice timeout 5 git x",
	"ls | xargs git x", "ls | xargs -0 -n 1 git", "ls | xargs -I{} git {} y", "ls | xargs -I % env git %", "ls | xargs", "ls | xargs -r -P 2 -- git x", "find . -name '*.go'", `find . -exec git x {} \;`, "find . -exec git x {} +", "find . -type f -exec git {} ';' -exec cat {} ';'", "find . -name x -delete", "find . -execdir git x '{}' ';'",
	"sh -c 'git x'", `sh -c "git x; ls"`, "bash -c 'git x && ls'", "dash -c 'git x | cat'", "sh -ec 'git x'", "sh -e -c 'git x' name arg", "bash -euo pipefail -c 'git x'", `sh -c "sh -c 'git x'"`, `sh -c 'sh -c "sh -c ls"'`, "sh -c 'git \"$1\"' sh x", "env sh -c 'ls'", "sh script",
	"sudo git x", "sudo -n -u root git x", "doas git x",
	// builtins
	"cd sub && git x", "cd sub; ls", "true && : && test -n x", "[ -f x ] && ls", `[ "$x" = y ] && ls`, `test -n "$x" -a -f y || ls`, "[[ $x == y ]] && ls", "ls ${x:1}", "ls ${x:1:2}", "echo a; printf '%s' b", `read line; git "$line"`, "while read -r a b; do git \"$a\"; break; done <in", "umask 022; ls", "set -e; ls", "exit 0", "shift; ls", "wait", "pwd",
	"echo $'\\'' ; rm x; echo $'\\'' \\'", "/bin/ls x", "/usr/bin/env ls", "./tool x", "sub/tool", "ls é > 'ö'",
}

// askedLines are command lines that no rule allows.
var askedLines = []string{
	// nothing to allow
	"CI=1", "sh -c ''", "# comment", "",
	// not parsed
	"ls (", "ls )", "ls 'x", `ls "x`, "ls $(", "ls `cat", "if ls; then", "for x in", "ls |", "ls &&", "case x", "cat <<E\nx", "{ ls", "ls ;;", "ls <", "}", "fi",
	// what runs is not known
	"$x", "$x y", "${x} y", "$(echo rm) x", "`echo rm` x", "*", "./* x", "r? x", "{rm,x}", "~/bin/x", "$'rm' x", "$'r\\x6d' x", "$\"rm\" x", "\"$x\" y", "r${x}m y", "env $x rm", "nice $x rm y", "timeout $x rm y", "sh -c \"$x\"", "sh -c $x", "sh $x", "xargs $x", "exec $x", "command $x", "find . $x", "find . -name *.go", "ls | xargs -I{} {} x", "ls | xargs -I{} sh -c '{}'", "find . -exec {} ';'", "find . -exec sh -c {} ';'", "sudo $x ls",
	// shells without a known script
	"sh", "ls | sh", "sh <<E\nrm x\nE\n", "echo rm x | bash", "sh -s", "sh -", "bash -i", "bash --rcfile x -c ls", "sh -lc ls", "env sh",
	// options that are not in the table
	"env -S 'rm x'", "env --split-string='rm x'", "env -C / ls", "env -iS 'rm x'", "xargs -a x rm", "xargs --arg-file=x rm", "timeout --unknown 5 rm x", "sudo -s", "sudo -i rm x", "sudo -e x", "nice --x rm y", "ls | xargs -i rm {}", "exec -a git rm x", "time -o x ls", "nohup -x rm y", "stdbuf --x=1 rm y",
	// text that becomes a command
	"eval rm x", "eval \"$x\"", "eval 'git x'", ". ./x", "source x", "trap 'rm x' EXIT", "trap - EXIT", "alias git=rm; git x", "alias git=rm\ngit x", "git() { rm x; }; git", "function git { rm x; }; git x", "git() ( rm x )", "hash -p /bin/rm git; git x", "enable -f x y", "command eval rm x", "builtin eval rm x", "coproc rm x", "builtin . x", "fc -s",
	// assignments
	"PATH=/tmp git x", "PATH=/tmp; git x", "LD_PRELOAD=x git y", "GIT_DIR=x git y", "x=1", "x=$(ls)", "export PATH=/tmp; git x", "export X; ls", "readonly PATH=x; ls", "env PATH=/tmp git x", "env LD_PRELOAD=x git", "sudo LD_PRELOAD=x git", "BASH_ENV=x bash -c ls", "ENV=x sh -c ls", "IFS=x; ls", "for PATH in /tmp; do git x; done", ": ${PATH:=x}; ls", ": ${PATH=x}; ls", ": $((PATH=1)); ls", ": $((PATH+=1)); ls", "read PATH <in; ls", "unset PATH; ls", "printf -v PATH x; ls", "printf $x; ls", "getopts a PATH; ls", "mapfile -C rm x; ls", "declare PATH=x; ls", "typeset -x PATH=x; ls", "f() { local PATH=x; ls; }", "PATH+=:x git y", "let PATH=1; ls", "http_proxy=x git y", "for http_proxy in x; do git y; done", "a[0]=x; ls",
	// redirections
	"ls > $x", "ls > *", "ls > ~/x", "cat < $x", "cd sub; ls > out", "cd sub && ls >> ./out", "while ls x; do ls > out; cd sub; break; done", "pushd sub; cat < in", "ls > \"$(cat x)\"", "ls > ''", "cd sub; ./tool", "cd sub && tool/x", "for i in a; do ./tool; cd sub; done", "cd sub; find . -fprint x", "find . -fprint $x", "builtin cd sub; ls > x", "command cd sub; ./tool", "sh -c 'cd sub; ls > x'", "find . -execdir ./tool ';'",
	// shells differ
	"echo $'\\'; rm x #'\n\"", "test -v 'a[$(rm x)]'", "[ -v 'a[`rm x`]' ]", `test -v a\[\$\(rm\ x\)]`, "ls\r\nrm x", "ls\r", "ls \x01", "ls\v",
	"cat <<E\n$((1+$(ls)))\nE\n", "read x <in; ls $((x))", "read x <in; ls $(( $x + 1 ))", "for i in 1; do ls $((i)); done", "read x <in; ls \"${x@P}\"", "read x <in; ls \"${!x}\"", "read x <in; ls ${y:x}", "ls ${a[x]}", "read x <in; [[ $x -eq 1 ]]", "read x <in; [[ -v $x ]]", "read x <in; test -v \"$x\"", "[ $x ]", "read x <in; [ \"$x\" \"$y\" ]", "((x)); ls", "let x; ls", "for ((;x;)); do ls; done", "test -R x",
	"shopt -s extglob\necho @($(rm x))", "[[ x == @($(rm x)|y) ]]",
}

// commandLines are all of them.
var commandLines = append(append([]string{}, allowedLines...), askedLines...)
