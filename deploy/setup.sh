# shellcheck shell=sh
# What an installation of the host needs besides its files: users, directories,
# and units that run. It is the beginning of the package's scripts, and `make
# install` and `make uninstall` use it too. Read by sh.

# Whoever asks comes first: what a turn still needs is there while it ends.
services="daemon repl agr ctx sys mem rtr exc"

# begin install|upgrade makes users and directories, and has the sockets open,
# unless somebody stopped them before an upgrade. Services that run are started
# anew, one after the other; their sockets stay open meanwhile, and callers wait.
begin() {
	systemd-sysusers zino.conf
	systemd-tmpfiles --create zino.conf
	[ -d /run/systemd/system ] || return 0
	systemctl daemon-reload
	if [ "$1" = install ]; then
		systemctl enable --quiet --now zino.target
	elif systemctl is-active --quiet zino.target; then
		systemctl start zino.target # sockets that are new
	fi
	for name in $services; do
		systemctl try-restart "zino-$name.service"
	done
}

# end takes the units down, the entrance first, so that turns can end.
end() {
	[ -d /run/systemd/system ] || return 0
	systemctl disable --quiet zino.target
	systemctl stop zino-daemon.socket zino-daemon.service
	systemctl stop zino.target 'zino-*.socket' 'zino-*.service'
}

# forget has systemd notice that the units are gone.
forget() {
	rm -rf /run/zino /run/zino-run
	[ -d /run/systemd/system ] || return 0
	systemctl daemon-reload
	systemctl reset-failed 'zino-*' 2>/dev/null || true # none had failed
}

# purge removes what was kept: histories, keys, configuration and users.
purge() {
	rm -rf /var/lib/zino /etc/zino
	rm -f /etc/credstore/zino.* /etc/credstore.encrypted/zino-*
	for name in $services; do
		if getent passwd "zino-$name" >/dev/null; then userdel "zino-$name"; fi
	done
	for group in zino zino-bus; do
		if getent group "$group" >/dev/null; then groupdel "$group"; fi
	done
}
