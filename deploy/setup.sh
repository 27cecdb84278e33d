# shellcheck shell=sh
# Users, directories and units of a host's installation. The package's scripts
# start with this file; deploy/install and deploy/uninstall source it. For sh.

# Those that a user's installation has as well: it has no zino-audit.
services="daemon repl agr ctx sys mem rtr exc mcp"

# begin install|upgrade creates users and directories and opens the sockets,
# unless they were stopped before an upgrade. Running services are restarted; their
# sockets stay open and callers wait.
begin() {
	systemd-sysusers zino.conf
	systemd-tmpfiles --create zino.conf
	[ -d /run/systemd/system ] || return 0
	systemctl daemon-reload
	if [ "$1" = install ]; then
		systemctl enable --quiet --now zino.target
	elif systemctl is-active --quiet zino.target; then
		systemctl start zino.target # new sockets
	fi
	systemctl try-restart zino-turns.target # the daemon stops first and starts last
}

# end stops the units, the daemon first, so that turns can end.
end() {
	[ -d /run/systemd/system ] || return 0
	systemctl disable --quiet zino.target
	systemctl stop zino-daemon.socket zino-daemon.service
	systemctl stop zino.target 'zino-*.socket' 'zino-*.service'
}

# forget makes systemd forget the removed units.
forget() {
	rm -rf /run/zino /run/zino-run /run/zino-gate /run/zino-exc
	[ -d /run/systemd/system ] || return 0
	systemctl daemon-reload
	systemctl reset-failed 'zino-*' 2>/dev/null || true # none had failed
}

# purge removes histories, keys, configuration and users.
purge() {
	rm -rf /var/lib/zino /var/lib/zino-daemon /var/lib/zino-exc /var/lib/zino-audit /var/lib/zino-home /etc/zino
	rm -f /etc/credstore/zino.* /etc/credstore.encrypted/zino-*
	for name in $services audit home; do
		if getent passwd "zino-$name" >/dev/null; then userdel "zino-$name"; fi
	done
	for group in zino zino-bus; do
		if getent group "$group" >/dev/null; then groupdel "$group"; fi
	done
}
