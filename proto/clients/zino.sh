#!/bin/sh
# Make one request to a service of Zino and print each packet of the answer.
#
# usage: zino.sh SOCKET '{"type":"ping"}' [| jq .]
#
# The exit status is 1 after an error. The protocol: ../PROTOCOL.md
# It needs socat. The end of what is sent ends no answer: the service closes the
# connection when the answer is complete, and so the packets are simply all.
if [ $# -ne 2 ]; then
	echo "usage: zino.sh SOCKET '{\"type\":\"ping\"}'" >&2
	exit 2
fi
size=$(printf %s "$2" | wc -c)
head=$(printf '\\0%03o\\0%03o\\0%03o\\0%03o' $((size >> 24)) $((size >> 16 & 255)) $((size >> 8 & 255)) $((size & 255)))
{ printf %b "$head" && printf %s "$2"; } | socat -t 86400 - "UNIX-CONNECT:$1" | {
	packet='{"type":"error"'
	# shellcheck disable=SC2046
	while set -- $(dd bs=1 count=4 2>/dev/null | od -An -tu1) && [ $# -eq 4 ]; do
		packet=$(head -c $((($1 << 24) + ($2 << 16) + ($3 << 8) + $4)))
		printf '%s\n' "$packet"
	done
	case $packet in '{"type":"error"'*) exit 1 ;; esac
}
