// Package adapters contains the programs that connect other runtimes to the file REPL:
// zino_repl.mjs for Node.js and zino_repl.py for Python. Each is a single file that
// needs only the standard library, so that it can be copied into a project.
package adapters
