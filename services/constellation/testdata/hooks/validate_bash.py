#!/usr/bin/env python3
"""A PreToolUse hook: refuses shell commands that the team does not want."""
import json
import re
import sys

RULES = [
    (r"^\s*grep\b", "Use rg in place of grep."),
    (r"\brm\s+-rf\s+/", "Do not remove directories from the root."),
]


def main():
    try:
        event = json.load(sys.stdin)
    except json.JSONDecodeError as err:
        print(f"not JSON: {err}", file=sys.stderr)
        return 1
    if event.get("tool_name") != "Bash":
        return 0
    command = event.get("tool_input", {}).get("command", "")
    found = [message for pattern, message in RULES if re.search(pattern, command)]
    for message in found:
        print(f"- {message}", file=sys.stderr)
    return 2 if found else 0


sys.exit(main())
