// Package page is the pure core of the file REPL: what the log file of one page
// becomes, as a function of what stood in it and what happened. It does no I/O,
// reads no clock and starts no goroutine.
//
// # Use
//
// A [State] is immutable. [State.Apply] takes the end of the file as it is now and
// one event, and returns the next state, an edit of the file and actions. The caller
//
//  1. reads the file from [State.From] to its end (View),
//  2. calls next, edit, actions := s.Apply(view, event),
//  3. if edit.Need is not [Nothing]: reads what is asked for, continues at 2,
//  4. if edit.Changed: reads the file again, compares it with the view, and writes;
//     if it was changed meanwhile: drops next and actions, continues at 1,
//  5. makes next the state, and only then carries out the actions.
//
// An event that is applied again to the same state and view has the same result, so
// nothing is lost by dropping one. If the file cannot be read or written at all (no
// space, no permission), the caller applies the event to a View that is Unavailable:
// the state takes it in, and the file follows at a later Tick. After each event the
// caller arranges that a Tick is applied at [State.Deadline], if that is not zero.
//
// A file that was never read, or whose end is not where it was, has to be read from
// its head once, because only the head tells whether a line stands inside a fence:
// Need is then [Head], the caller passes the file through [State.Scan], which keeps
// nothing of it, and gives the tail from Scan.From on together with the Scan. A file
// that is given as a whole needs no Scan; of a long one that was not read yet any
// tail may be given first. Otherwise the cost follows the tail and does not depend on
// the length of the log. One event asks for more three times at most.
//
// # The file
//
//	# index-7-zen-1a2b                                title
//	> This file is a REPL ...                         guide
//	                                                  history: settled, never parsed again
//	> page is now "Title" at URL                      where the page calls itself so
//	                                                  from here on
//	> **agent** to index-7-zen-1a2b at 22:52:47       request header (kept, or added)
//	```js
//	12+13
//	```
//
//	> **index-7-zen-1a2b** to agent at 22:52:47       announcement
//	```Text console.log                               background shown so far
//	hello
//	```
//	executing (5s)                                    placeholder
//
// and, when the result is there, instead of the last five lines:
//
//	> **index-7-zen-1a2b** to agent at 22:52:53 (5.4s)
//	```JSON
//	25
//	```
//	```Text console.log
//	hello
//	```
//
//	> Write code in a fenced JS block below to execute against this page.
//
// The last line is the footer. Text below it is a candidate; text above it, or in a
// file without one, is a request only if an exact header that addresses this page
// stands behind the last reply; a reply of another name counts where it stands below
// a block. The state holds the end of the settled part of the file (the anchor: the
// last bytes of the history and their position), and only what is behind it is
// parsed.
//
// # Phases
//
//	unread     the file was not read yet; Start or any event with a view leaves it
//	idle       there is a footer, or there will be one after Quiet
//	requested  a block is announced and waits for the page to be loaded again
//	executing  the block's code was given out with Run, once and for all
//	           (Started says when the page got it)
//	answered   the result is known but not in the file yet: the file could not be
//	           written, or was damaged less than Quiet ago
//
// From idle, a complete candidate leads to requested, and on to executing in the same
// transition unless the block has the option after=reload. A result, a timeout, the
// loss of the page or an abort leads over answered to the next block of the chunk, or
// to idle. After an error the next block is run; after a timeout or the loss of the
// page the rest is not. Where the next block has after=reload, the loss of the page is
// the answer "reloaded" of the block before it.
//
// While the page is gone, phases stay idle: requests stand in the file as they were
// written. After a minute a note below the first block says that the page is gone; if
// it comes back within ten minutes, the note is removed, and what is above it is a
// request again. All that is known of that after a restart is the note.
//
// Stopping ends the request at work; nothing is accepted after it. A request that the
// file shows as executing when it is read for the first time is marked interrupted.
//
// # Edits by others
//
// Appended text leaves the anchor where it is. If the anchor has moved, or is gone,
// the text behind it may be an older copy of the file that an editor has saved. The
// answered exchanges of this start are remembered, with their requests and whether their
// replies stand above the anchor, where nothing changes; the others are looked for behind
// it. What the whole file lacks of them is put back: a reply below its block if the block
// is there, else the exchange behind those of the copy and above what was added to it.
// None of it is run again. A file that
// does not begin with the title was replaced; what it lacks is kept beside it.
//
// A job at work is found again by its code, its announcement or its header, and written
// again into an older copy; if the file lacks nothing else for Quiet, the request was
// removed, and is cancelled. A file that is missing or empty for Quiet is created
// again, with the exchange at work in it.
//
// # Invariants
//
//   - No byte that the user wrote is changed or lost. The service removes only what
//     it wrote: footers, the announcement, the background below it, the placeholder
//     and notes that a page is gone. A line outside any fence that is equal to the footer is a footer,
//     no matter who wrote it, and so is the empty line above it in a file that is read
//     from its head.
//   - One blank line stands above each header that the service writes and above the
//     footer. It adds none to a blank line of the user's.
//   - Code is given out only when it stands in the file below its header, with its
//     announcement, and each job once. Nothing of the history is ever run.
//   - A result counts only with the id of the job that is out. Text in the file is
//     text, whatever it looks like.
//   - There is at most one footer outside any fence, and in an idle file without a
//     draft it is the last line that is not blank.
//   - What stands before [State.Settled] is never changed.
//   - While the end of the text is a fence that is not closed, a draft, the file is
//     not touched, except for a job that runs already or comes from a program;
//     those are written above it.
//   - The memory of a State is bounded, except for the chunk at work itself.
package page
