// Package page is the pure core of the file REPL: what one page's log is, as a
// function of what stood in it and what happened. It does no I/O, reads no clock
// and starts no goroutine.
//
// # Use
//
// A [Page] is immutable. [Page.Apply] takes what the file's end looks like now
// and one event, and returns the page as it would be afterwards, an edit of the
// file and effects. The caller
//
//  1. reads the file from [Page.From] to its end (View),
//  2. calls next, edit, effects := p.Apply(view, event),
//  3. if edit.Need is not [Nothing]: reads what is asked for, goes to 2,
//  4. if edit.Changed: reads the file again, compares it with the view, and writes;
//     if it was changed meanwhile: drops next and effects, goes to 1,
//  5. makes next the page, and only then carries out the effects.
//
// An event that is applied again to the same page and view has the same outcome,
// so nothing is lost by dropping one. If the file cannot be read or written at all
// (no space, no right), the caller applies the event to a View that is Held:
// memory takes it in, and the file follows at a later Tick. After each event the
// caller sees to it that a Tick is applied at [Page.Wake], if that is not zero.
//
// A file that was never seen, or whose end is not where it was, has to be read
// from its head once, because only that tells whether a line stands inside a
// fence: Need is then [Head], the caller passes the file through [Page.Scan],
// which keeps nothing of it, and gives the tail from Scan.From on together with
// the Scan. A file that is given as a whole needs no Scan; of a long one that was
// not seen yet any tail may be given first. In all other cases cost follows the
// tail: a log's length is of no consequence. One event asks for more three times
// at the most.
//
// # The file
//
//	# index-7-zen-1a2b                                title
//	> This file is a REPL ...                         guide
//	                                                  history: settled, never looked at again
//	> **agent** to index-7-zen-1a2b at 22:52:47       request header (kept, or put in)
//	```js
//	12+13
//	```
//	> **index-7-zen-1a2b** to agent at 22:52:47       announcement
//	```Text console.log                               background shown so far
//	hello
//	```
//	executing (5s)                                    placeholder
//
// and, when the result is there, instead of the last five:
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
// The last line is the footer. Text below it is a candidate; text above it, or in
// a file without one, is a request only if an exact header that addresses this page
// stands behind the last reply; a reply of another name counts where it stands below
// a block. The page remembers up to where the file is settled
// (its anchor: the last bytes of the history and their place), and parses from
// there only.
//
// # States
//
//	fresh      the file was not seen yet; Start or any event with a view leaves it
//	idle       there is a footer, or there will be one after Quiet
//	requested  a chunk was accepted and one of its blocks is announced; no page to run it
//	given      the block's code was given out with Run, once and for all
//	           (Started tells when the page got it)
//	answered   the outcome is known but not in the file yet: the file could not be
//	           written, or was damaged less than Quiet ago
//
// From idle, a complete candidate leads to requested (and on to given in the same
// step if the page is there). A result, a timeout, the loss of the page or an abort
// leads over answered to the chunk's next block, or to idle. After an error the next
// block is run; after a timeout or the loss of the page the rest is not.
//
// # Edits by others
//
// An appended text leaves the anchor where it is. If the anchor has moved, or is
// gone, what stands behind it may be an older copy of the file that an editor has
// saved. Then each block is compared with those that were answered since the
// start: one whose reply should stand above it, and does not, gets that reply put
// back below it, and is not run. A job at work is found again by its code, its
// announcement or its header; if all are gone for Quiet, it is cancelled. A file
// that is missing or empty for Quiet is made anew, with the exchange at work in it.
//
// # Invariants
//
//   - No byte that the user wrote is changed or lost. What the service removes is
//     what it wrote: footers, the announcement, the background below it and the
//     placeholder. A line outside any fence that is equal to the footer is a footer,
//     whoever wrote it.
//   - Code is given out only when it stands in the file below its header, with its
//     announcement, and each job once. Nothing of the history is ever run.
//   - A result counts only with the id of the job that is out. Text in the file is
//     text, whatever it looks like.
//   - There is at most one footer outside any fence, and in an idle file without a
//     draft it is the last line that is not blank.
//   - What stands before [Page.Settled] is never changed.
//   - While the end of the text is a fence that is not closed, a draft, the file is
//     not touched, except for a job that is at work already or comes from a program;
//     those are written above it.
//   - What a page keeps in memory is bounded, except for the chunk at work itself.
package page
