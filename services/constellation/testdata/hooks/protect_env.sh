#!/bin/sh
# A PreToolUse hook: keeps files named .env from being read or changed.
case $(cat) in
*'"file_path":"'*'/.env"'*)
	printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",'
	printf '"permissionDecisionReason":"%s/.env has secrets"}}\n' "$CLAUDE_PROJECT_DIR"
	;;
esac
