total() { awk 'END { print "total: " NR " lines" }' "$1"; }
