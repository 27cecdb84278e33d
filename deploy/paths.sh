# Sets where an installation's files go: prefix, units, userunits, and system,
# which is "yes" for a host's installation. Read by bash.
# shellcheck shell=bash disable=SC2034 # the scripts that source it use them

system=
if [ -n "${DESTDIR-}" ] || [ "$(id -u)" = 0 ]; then
	system=yes
	prefix=${PREFIX:-/usr/local}
	userunits=$prefix/lib/systemd/user
else
	prefix=${PREFIX:-$HOME/.local}
	userunits=${XDG_DATA_HOME:-$HOME/.local/share}/systemd/user
fi
share=$prefix/share/zino
installed=$share/installed

# remove deletes a file, or an empty directory (with a slash at its end).
remove() {
	case $1 in
	*/) [ ! -d "$1" ] || rmdir --ignore-fail-on-non-empty "$1" ;;
	*) rm -f "$1" ;;
	esac
}
