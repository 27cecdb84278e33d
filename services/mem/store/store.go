// Package store defines the interface of an engine for hard memories. Package
// storetest tests an engine against it.
package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Store stores memories. Each has an id, its position in the order of storing from
// 0; the id of a deleted one is not used again. What a call has acknowledged is
// durable, and every later call finds it, also in other processes that share the
// memories. A Store is safe for concurrent use.
type Store interface {
	// Put stores a memory and returns its id. A duplicate, with the same messages
	// and tag as a stored memory, is not stored: the first one's id is returned.
	// m.ID is ignored, and a zero time means now.
	Put(ctx context.Context, m Memory) (id int, err error)
	// Find returns the id that Put would return for a duplicate, or ErrNotFound.
	Find(ctx context.Context, m Memory) (id int, err error)
	// Replace is Put for a memory that replaces another: searches do not find the old
	// one any more. If it was replaced before, the memory that replaced it is
	// replaced. The old one may be ErrNotFound; then nothing is stored.
	Replace(ctx context.Context, old int, m Memory) (id int, err error)
	// Update changes a memory. Its id, its time and where it came from stay.
	// Errors are ErrNotFound and DuplicateError.
	Update(ctx context.Context, id int, c Change) error
	// Delete deletes a memory, or returns ErrNotFound.
	Delete(ctx context.Context, id int) error
	// Get returns a memory, or ErrNotFound.
	Get(ctx context.Context, id int) (Memory, error)
	// Search returns the memories nearest to a query, best first, of equal scores
	// the most recent first. A memory that shares no word with it is not found.
	Search(ctx context.Context, q Query) ([]Result, error)
	// Scan walks memories from the newest on. An error is the last pair. Memories
	// may be stored, changed and deleted meanwhile.
	Scan(ctx context.Context, f Filter) iter.Seq2[Memory, error]
	// Len is the number of memories that searches can find.
	Len(ctx context.Context) (int, error)
	// Close ends the use of the store.
	Close() error
}

// Memory is a hard memory.
type Memory struct {
	// ID is the position in the order of storing, from 0.
	ID int
	// Messages is a JSON list of objects with a string role and a string
	// content, in valid UTF-8. It is stored as it is.
	Messages []byte
	// Tag is searched like the contents.
	Tag string
	// Channel and Session are where the memory comes from, if that is known.
	Channel, Session string
	// Created is when it was stored, to the second; the zero time if that is
	// unknown. Memories are not ordered by it, because clocks jump.
	Created time.Time
	// ReplacedBy, if not nil, is the id of the memory that replaced this one, -1 if
	// that is unknown. Searches find only memories that are not replaced, and only
	// those have duplicates among each other.
	ReplacedBy *int
}

// Current returns the memory that stands for id today: that memory, or the last one of
// those that replaced each other since. get reads a memory. The result is replaced
// itself if the memory that replaced it is gone.
func Current(get func(id int) (Memory, error), id int) (Memory, error) {
	m, err := get(id)
	for seen := map[int]bool{}; err == nil && m.ReplacedBy != nil && !seen[m.ID]; {
		seen[m.ID] = true
		next, nextErr := get(*m.ReplacedBy)
		if errors.Is(nextErr, ErrNotFound) {
			break
		}
		m, err = next, nextErr
	}
	return m, err
}

// Change is what changes in a memory; nil leaves a part as it is.
type Change struct {
	Messages []byte
	Tag      *string
}

// Filter selects memories. The zero Filter selects all.
type Filter struct {
	// Tag and Channel, if not empty, are what a memory must have.
	Tag, Channel string
	// Since and Until, if not zero, select memories stored from Since on and before
	// Until. One whose time is unknown is not selected.
	Since, Until time.Time
	// Before, if not nil, selects lower ids.
	Before *int
}

// Query is a search.
type Query struct {
	Filter
	// Text is plain text; without words nothing is found.
	Text string
	// K is the largest number of results; with 0 or less nothing is found.
	K int
	// MinScore leaves out results with a lower score.
	MinScore float64
	// Explain asks for the words that made the scores.
	Explain bool
	// Room, if above 0, is how many bytes the messages of all results may have
	// together; more is the error ErrTooLarge.
	Room int
}

// Result is a memory that was found.
type Result struct {
	Memory
	// Score is the part of the query that the memory covers, words weighed by their
	// rarity, above 0 and below 1, in steps of 0.0001.
	Score float64
	// Words are those of the query that made the score, if they were asked for.
	Words []Share
}

// Share is a word's part of a score.
type Share struct {
	// Word is the word of the query.
	Word string
	// Share is its part, in steps of 0.0001 and above 0; the shares sum up to the
	// score.
	Share float64
	// As is the word stem that stands in for that of the word, if one does.
	As string
}

// Errors of every engine.
var (
	ErrNotFound = errors.New("there is no such memory")
	ErrTooLarge = errors.New("the memories found are larger than the reader's limit")
)

// DuplicateError is the error of a change that would make a memory equal to another.
type DuplicateError struct{ ID int }

func (e *DuplicateError) Error() string { return fmt.Sprintf("memory %d says the same", e.ID) }
