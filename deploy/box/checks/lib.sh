# shellcheck shell=bash
# shellcheck disable=SC2034 # the checks that source it use them
# Functions of the checks: each check sources this file.
set -uo pipefail
run=/run/zino
all=(daemon sys ctx mem agr rtr exc repl audit)

# found RESULT NAME DETAIL writes a line of the table: ok, FAIL, note.
found() { printf '%s\t%s\t%s\n' "$1" "$2" "${3-}" >>/box/found; }

# expect NAME DETAIL COMMAND… writes ok if the command succeeds, else FAIL.
expect() {
	local name=$1 detail=$2
	shift 2
	if "$@"; then found ok "$name" "$detail"; else found FAIL "$name" "$detail"; fi
}

# same NAME WANT GOT compares two texts.
same() {
	if [ "$2" = "$3" ]; then found ok "$1" "$3"; else found FAIL "$1" "got: ${3//$'\n'/ | }; want: ${2//$'\n'/ | }"; fi
}

# soon SECONDS COMMAND… waits until a command succeeds.
soon() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

# as USER COMMAND… runs a command as a user with all its groups.
as() {
	local user=$1
	shift
	setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups --reset-env -- "$@"
}

# ask SOCKET REQUEST prints the packets of the answer.
ask() { python3 /box/zino.py "$1" "$2"; }

# The program token prints a token of the host's daemon, without which its exc carries
# out no call: it is for checks that call exc in the daemon's place.
PATH=$PATH:/box/bin

pid() { systemctl show -P MainPID "zino-$1.service"; }
active() { systemctl is-active --quiet "zino-$1.service"; }
gone() { ! active "$1"; }

# millis COMMAND… runs a command and sets $took to its duration in milliseconds.
millis() {
	local begin=$EPOCHREALTIME status=0
	"$@" || status=$?
	took=$(((${EPOCHREALTIME/./} - ${begin/./}) / 1000))
	return $status
}

# field EXPRESSION prints a part of the last packet of stdin.
field() { python3 -c 'import json, sys; print(json.loads(sys.stdin.readlines()[-1])'"$1"')'; }

# counted NAME prints how often commands wrote NAME to the FIFO /box/count, which those
# of every level can do.
counted() { grep -cx "$1" /box/counted; }
ran() { [ "$(counted "$1")" = "$2" ]; }

# states LOG prints the states of the turns of a session, with their reasons.
states() { python3 -c 'import json, sys
print(*(" ".join(filter(None, (e["state"], e.get("reason")))) for e in map(json.loads, sys.stdin) if e["type"] == "turn"), sep=", ")' <"$1"; }
ended() { grep -qs '"state":"done"' "$1"; }

# hosts COMMAND… runs zino as alice, with the services of the host.
hosts() { (cd /home/alice && as alice zino --host "$@"); }

# login begins a session of dave on a terminal of its own; types COMMAND… enters a line
# there; logout ends the session.
login() {
	coproc TERMINAL { exec script --quiet --flush --command "login -f dave" /dev/null >>/tmp/terminal 2>&1; }
	types "cd ~/project; touch in"
	soon 10 test -e /home/dave/project/in
	rm -f /home/dave/project/in
}
types() { printf '%s\n' "$*" >&"${TERMINAL[1]}"; }
logout() {
	types exit
	wait "$TERMINAL_PID"
}

# asked COMMAND… prints the requests that wait for a person, COMMAND being that of zino.
asked() { "$@" approvals --json | python3 -c 'import json, sys
print(*(json.loads(line)["id"] for line in sys.stdin))'; }
waits() { [ -n "$(asked "$@" 2>/dev/null)" ]; }

# mine COMMAND… runs zino as dave, with his own services.
mine() { (cd /home/dave/project && as dave env XDG_RUNTIME_DIR="/run/user/$(id -u dave)" zino "$@"); }
