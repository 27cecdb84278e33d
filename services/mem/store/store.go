// Package store says what keeps hard memories: the one interface that every
// engine has, whatever it keeps them in. What an engine must do is held by the
// tests of package storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Store keeps memories. Each has an id, its position in the order of storing
// from 0; a deleted one leaves its place empty, and no other gets its id. What
// a call has acknowledged lasts, and every later call, also by others who share
// the memories, finds it. A Store is safe for concurrent use.
type Store interface {
	// Put stores a memory and returns its id. Of one with the same messages and
	// the same tag as a stored one nothing is stored: the first one's id is
	// returned. The memory's ID is not looked at, and a zero time means now.
	Put(ctx context.Context, m Memory) (id int, err error)
	// Update changes a memory. Its place, its time and where it came from stay.
	// Errors are ErrNotFound and DuplicateError.
	Update(ctx context.Context, id int, c Change) error
	// Delete deletes a memory; ErrNotFound if there is none.
	Delete(ctx context.Context, id int) error
	// Get returns a memory; ErrNotFound if there is none.
	Get(ctx context.Context, id int) (Memory, error)
	// Search returns the memories nearest to a query, best first, of equal ones
	// the most recent first. What shares no word with it is not found.
	Search(ctx context.Context, q Query) ([]Result, error)
	// Scan walks memories from the newest on. An error is the last thing it
	// gives. Memories may be stored, changed and deleted meanwhile.
	Scan(ctx context.Context, f Filter) iter.Seq2[Memory, error]
	// Len is the number of memories.
	Len(ctx context.Context) (int, error)
	// Close ends the use of the store.
	Close() error
}

// Memory is what is kept.
type Memory struct {
	// ID is the position in the order of storing, from 0.
	ID int
	// Messages is a JSON list of objects with a string role and a string
	// content, in valid UTF-8. It is kept as it stands.
	Messages []byte
	// Tag is searched like the contents.
	Tag string
	// Channel and Session say where the memory comes from, if that is known.
	Channel, Session string
	// Created is when it was stored, to the second. It orders nothing, as clocks
	// jump. The zero time means that it is not known.
	Created time.Time
}

// Change is what is new in a memory; nil leaves what is there.
type Change struct {
	Messages []byte
	Tag      *string
}

// Filter restricts to some memories. The zero Filter lets all pass.
type Filter struct {
	// Tag and Channel, if not empty, are those that a memory must have.
	Tag, Channel string
	// Since and Until, if not zero, are the first moment at which a memory may
	// have been stored, and the first at which it may not any more. One whose
	// time is not known passes neither.
	Since, Until time.Time
	// Before, if not nil, restricts to lower ids.
	Before *int
}

// Query says what to search.
type Query struct {
	Filter
	// Text is plain text; without words nothing is found.
	Text string
	// K is the largest number of results; 0 and less give none.
	K int
	// MinScore leaves out results with a lower score.
	MinScore float64
	// Explain asks for the words that made the scores.
	Explain bool
	// Room, if above 0, is the number of bytes that the messages of all results
	// may have together; the error is ErrTooLarge.
	Room int
}

// Result is a memory that was found.
type Result struct {
	Memory
	// Score is above 0 to 1, in steps of 0.0001.
	Score float64
	// Words are those of the query that made the score, if they were asked for.
	Words []Share
}

// Share is a word's part of a score.
type Share struct {
	// Word is the word as it stands in the query.
	Word string
	// Share is its part, in steps of 0.0001; the shares sum up to the score.
	Share float64
}

// Errors of every engine.
var (
	ErrNotFound = errors.New("there is no such memory")
	ErrTooLarge = errors.New("the memories found are larger than the reader's limit")
)

// DuplicateError says that another memory has the same messages and tag.
type DuplicateError struct{ ID int }

func (e *DuplicateError) Error() string { return fmt.Sprintf("memory %d says the same", e.ID) }
