// Package search has what a comparison of searches exchanges.
package search

// Task has the texts, whose numbers are their indexes, and groups of queries.
type Task struct {
	Texts   []string
	Queries [][]string
	More    []string // texts that are added one by one at the end
}

// Result has times in nanoseconds.
type Result struct {
	Built, Add float64
	Times      []float64 // median of each group of queries
	Hits       [][][]int // of each query, best first
	Memory     float64   // anonymous, in megabytes
}
