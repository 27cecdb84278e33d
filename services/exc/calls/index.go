package calls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"zino/pkg/durable"
	"zino/pkg/wire"
)

// errRewritten: another process has rewritten a file after it was indexed.
var errRewritten = errors.New("the journal of calls was rewritten by another program: try again")

// refresh indexes the lines that this process and others have appended since the last
// time.
func (j *Journal) refresh() error {
	for {
		rewritten, err := j.scanDays()
		if err != nil {
			return err
		}
		if !rewritten && !j.trim() {
			return nil
		}
		clear(j.index) // the places of lines have changed
		for _, d := range j.days {
			d.file.Close()
		}
		j.days = nil
	}
}

// scanDays indexes the new lines of all days. It reports whether a file was rewritten
// or removed.
func (j *Journal) scanDays() (rewritten bool, err error) {
	names, err := j.names()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		j.day(name)
	}
	for _, d := range j.days {
		if rewritten, err = j.scan(d); err != nil || rewritten {
			return rewritten, err
		}
	}
	return false, nil
}

func (j *Journal) scan(d *day) (rewritten bool, err error) {
	err = d.file.View(func(tx *durable.Tx) error {
		span, err := tx.Span(d.mark)
		if err != nil {
			return err
		}
		if rewritten = span.All && d.scanned; rewritten {
			return nil
		}
		for l, err := range durable.ReadLines(tx, span.From, span.To) {
			if err != nil {
				return err
			}
			j.add(d, l)
		}
		d.mark = span.Next
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", j.path(d), err)
	}
	return rewritten, err
}

// add indexes a line. An end without a begin belongs to a file that was removed.
func (j *Journal) add(d *day, text durable.Line) {
	d.scanned = true
	l, when, ok := parse(text.Text)
	if !ok {
		d.damaged = true
		return
	}
	if d.first.IsZero() {
		d.first = when
	}
	at := place{day: d, at: text.Start, size: text.Next - text.Start}
	switch e, begun := j.index[l.Key]; {
	case l.Begin != "":
		j.index[l.Key] = entry{begin: at}
	case l.End != "" && begun:
		e.end = at
		j.index[l.Key] = e
	}
	if len(l.Result) > 0 {
		d.results += int64(len(text.Text))
	}
}

// read reads the line of a call again.
func (p place) read(key string) (l line, err error) {
	err = p.day.file.View(func(tx *durable.Tx) error {
		for text, err := range durable.ReadLines(tx, p.at, p.at+p.size) {
			if err != nil {
				return err
			}
			l, _, _ = parse(bytes.Clone(text.Text))
		}
		return nil
	})
	if err == nil && l.Key != key {
		err = errRewritten
	}
	return l, err
}

// trim drops the oldest results if there are too many: a quarter more than are kept,
// since that rewrites a file. It reports whether it did.
func (j *Journal) trim() bool {
	var sum int64
	for _, d := range j.days {
		sum += d.results
	}
	if sum <= j.most+j.most/4 {
		return false
	}
	for _, d := range j.days {
		dropped, err := j.drop(d, sum-j.most)
		if err != nil {
			j.log.Warn("cannot drop the oldest results of calls", "file", j.path(d), "error", err)
			return false
		}
		if sum -= dropped; sum <= j.most {
			break
		}
	}
	return true
}

// drop rewrites a file without the results of its first lines, of at least so many
// bytes if it has them.
func (j *Journal) drop(d *day, bytes int64) (dropped int64, err error) {
	if d.results == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	err = d.file.Update(ctx, false, func(tx *durable.Tx) error {
		span, err := tx.Span(durable.Mark{})
		if err != nil {
			return err
		}
		return durable.ReplaceWith(j.root, d.name+ext, durable.FileMode, func(w io.Writer) error {
			for text, err := range durable.ReadLines(tx, span.From, span.To) {
				if err != nil {
					return err
				}
				kept := text.Text
				if kept == nil {
					kept = []byte("{}") // too long to be ours: it stays damaged
				}
				if l, _, ok := parse(kept); ok && len(l.Result) > 0 && dropped < bytes {
					dropped += int64(len(kept))
					l.Result = nil
					if kept, err = wire.AppendObject(nil, "", l); err != nil {
						return err
					}
				}
				if _, err := fmt.Fprintf(w, "%s\n", kept); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if errors.Is(err, os.ErrNotExist) { // another process has removed it
		err = nil
	}
	return dropped, err
}
