#!/usr/bin/env python3
"""A hook for all events: prints its decisions as JSON."""
import json
import os
import sys

event = json.load(sys.stdin)
name = event["hook_event_name"]
project = os.environ["CLAUDE_PROJECT_DIR"]
words = [name] + [event[key] for key in ("tool_name", "source", "trigger", "notification_type") if key in event]
if "stop_hook_active" in event:
    words.append(str(event["stop_hook_active"]).lower())
with open(os.path.join(project, "events.log"), "a") as log:
    log.write(" ".join(words) + "\n")


def block(reason):
    print(json.dumps({"decision": "block", "reason": reason}))
    sys.exit(0)


def add(text):
    print(json.dumps({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}))


arguments = event.get("tool_input", {})
if name == "SessionStart":
    add("from SessionStart")
elif name == "UserPromptSubmit":
    if "forbidden" in event["prompt"]:
        block("not that")
    add("from UserPromptSubmit")
elif name == "PreToolUse" and arguments.get("command", "").startswith("rm"):
    print(json.dumps({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no rm",
    }}))
elif name == "PostToolUse" and arguments.get("file_path", "").endswith(".txt"):
    block("lint " + os.path.basename(arguments["file_path"]))
elif name == "Stop" and not event["stop_hook_active"]:
    block("tests first: " + event["last_assistant_message"])
elif name == "PreCompact":
    block("stay")
