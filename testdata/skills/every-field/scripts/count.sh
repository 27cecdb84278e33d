#!/bin/sh
# Counts the lines of a file, which is named relative to the skill's folder.
cd "$(dirname "$0")/.." && . scripts/lib/total.sh && total "$1"
