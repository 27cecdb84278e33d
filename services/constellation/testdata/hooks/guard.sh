#!/usr/bin/env bash
# A hook for all events: blocks with status 2, and its reason is standard error.
set -euo pipefail
input=$(cat)
event=$(jq -r '.hook_event_name' <<<"$input")
jq -r '[.hook_event_name, .tool_name // empty, .source // .trigger // .notification_type // empty, .stop_hook_active] | map(select(. != null)) | join(" ")' <<<"$input" >>"$CLAUDE_PROJECT_DIR/events.log"

block() {
	echo "$1" >&2
	exit 2
}
case $event in
SessionStart) echo "from SessionStart" ;;
UserPromptSubmit)
	if jq -e '.prompt | test("forbidden")' <<<"$input" >/dev/null; then block "not that"; fi
	echo "from UserPromptSubmit"
	;;
PreToolUse)
	if [[ $(jq -r '.tool_input.command // ""' <<<"$input") == rm* ]]; then block "no rm"; fi
	;;
PostToolUse)
	file=$(jq -r '.tool_input.file_path // ""' <<<"$input")
	if [[ $file == "$CLAUDE_PROJECT_DIR"/*.txt ]]; then block "lint ${file##*/}"; fi
	;;
Stop)
	if [[ $(jq -r '.stop_hook_active' <<<"$input") == false ]]; then block "tests first: $(jq -r '.last_assistant_message' <<<"$input")"; fi
	;;
PreCompact) block "stay" ;;
esac
exit 0
