// Package adapters holds the programs that connect other runtimes to the file REPL:
// zino_repl.mjs for Node.js and zino_repl.py for Python. Each is one file that needs
// only its standard library, to be copied to where it is used.
package adapters
