// Command fts searches in SQLite's FTS5, in its own process. It reads the texts and the
// queries from standard input and prints what it found, and how long that took.
package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"zino/services/constellation/measure"
	"zino/services/constellation/peers/search"
	"zino/services/mem/index"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string) error {
	var task search.Task
	if err := json.NewDecoder(os.Stdin).Decode(&task); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "fts.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE VIRTUAL TABLE memories USING fts5(text, tokenize = 'porter unicode61')`); err != nil {
		return err
	}
	var result search.Result
	began := time.Now()
	if err := fill(db, task.Texts); err != nil {
		return err
	}
	result.Built = float64(time.Since(began))
	find, err := db.Prepare(`SELECT rowid, text FROM memories WHERE memories MATCH ? ORDER BY rank LIMIT 10`)
	if err != nil {
		return err
	}
	defer find.Close()
	for _, queries := range task.Queries {
		var times []float64
		var found [][]int
		for _, q := range queries {
			began := time.Now()
			ids, err := hits(find, q)
			if err != nil {
				return err
			}
			times, found = append(times, float64(time.Since(began))), append(found, ids)
		}
		result.Times, result.Hits = append(result.Times, measure.Percentile(times, 50)), append(result.Hits, found)
	}
	var times []float64
	for _, text := range task.More {
		began := time.Now()
		if _, err := db.Exec(`INSERT INTO memories(text) VALUES (?)`, text); err != nil {
			return err
		}
		times = append(times, float64(time.Since(began)))
	}
	result.Add = measure.Percentile(times, 50)
	if result.Memory, err = measure.Anonymous(os.Getpid()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// fill stores all texts in one transaction.
func fill(db *sql.DB, texts []string) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // an error: it was committed
	insert, err := tx.Prepare(`INSERT INTO memories(rowid, text) VALUES (?, ?)`)
	if err != nil {
		return err
	}
	for i, text := range texts {
		if _, err := insert.Exec(i, text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// hits searches for any of the query's words, as search_hard does.
func hits(find *sql.Stmt, query string) (ids []int, err error) {
	words := index.Words(query)
	if len(words) == 0 {
		return nil, nil
	}
	rows, err := find.Query(`"` + strings.Join(words, `" OR "`) + `"`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		var text string
		if err := rows.Scan(&id, &text); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
