// Package adapters holds what makes programs of other runtimes pages of the file
// REPL: zino_repl.mjs for Node.js and zino_repl.py for Python. Each is one file that
// depends on nothing but its standard library, to be copied to where it is used.
package adapters
