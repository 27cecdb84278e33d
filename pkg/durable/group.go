package durable

import (
	"errors"
	"sync"
)

// Group lets concurrent callers share one commit: while a commit is under way,
// all who come later are collected and committed together by the next one. The
// zero value is ready.
type Group[T any] struct {
	turn sync.Mutex // held by the commit under way

	mu   sync.Mutex // guards next
	next *batch[T]  // what the next commit will take
}

type batch[T any] struct {
	items []T
	done  chan struct{}
	err   error
}

// Do adds item to the next commit and returns that commit's error when it is
// done. The items of a commit stand in the order in which they came. Whoever
// opened the batch runs commit for all of it.
func (g *Group[T]) Do(item T, commit func(items []T) error) error {
	b, leads := g.join(item)
	if !leads {
		<-b.done
		return b.err
	}
	g.turn.Lock()
	defer g.turn.Unlock()
	g.mu.Lock()
	g.next = nil
	g.mu.Unlock()

	// Should commit panic, those who wait must not wait for ever.
	b.err = errors.New("the write was given up")
	defer close(b.done)
	b.err = commit(b.items)
	return b.err
}

func (g *Group[T]) join(item T) (b *batch[T], leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if leads = g.next == nil; leads {
		g.next = &batch[T]{done: make(chan struct{})}
	}
	g.next.items = append(g.next.items, item)
	return g.next, leads
}
