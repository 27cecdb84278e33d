package soak_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// run is one run.
type run struct {
	options
	*world
	series series
	began  time.Time
	ended  time.Time

	mu                        sync.Mutex
	rounds                    int
	done                      counts
	acknowledged              counts
	writes                    []write // acknowledged in this round
	failedDuring, failedAfter int
	failures                  map[string]int // by kind and message
	verified                  int
	verifiedAfterKill         int
}

// counts are operations by their kind.
type counts map[string]int

func (c counts) total() (n int) {
	for _, k := range c {
		n += k
	}
	return n
}

func (c counts) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, c[kind]))
	}
	return strings.Join(parts, ", ")
}

// write is an acknowledged write.
type write struct {
	what  string
	time  time.Time
	found func(context.Context) (bool, error) // whether it can be read back
	drop  func(context.Context) error         // removes it, and may have removed it
}

// errLost is the error for an acknowledged write that cannot be read back.
var errLost = errors.New("LOST")

// readLimit is how long a write may be unreadable because services start again.
const readLimit = time.Minute

// worker is one client: each call is one operation, which returns what was acknowledged.
type worker struct {
	kind string
	op   func(ctx context.Context, round, n int) (*write, error)
}

// traffic runs rounds until the end of the run, with kills before the end of the first
// phase, and samples. It returns the first lost write.
func (r *run) traffic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.length)
	defer cancel()
	r.done, r.acknowledged, r.failures = counts{}, counts{}, map[string]int{}
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	background.Go(func() {
		r.every(ctx, r.samples, func() {
			if r.sample(ctx); r.damage != nil {
				r.damage(r.world)
			}
			if r.enough != nil && r.enough(r) {
				cancel()
			}
		})
	})
	background.Go(func() {
		kills, end := context.WithDeadline(ctx, r.began.Add(r.firstPhase))
		defer end()
		r.every(kills, r.kills, r.kill)
	})
	workers := []worker{{"memory", r.memory}, {"page", r.page}, {"history", r.history}}
	for _, kind := range []string{"plain", "command", "job", "server"} {
		workers = append(workers, worker{kind, func(ctx context.Context, round, n int) (*write, error) { return r.turn(ctx, kind, round, n) }})
	}
	for ctx.Err() == nil {
		r.mu.Lock()
		r.rounds++
		r.mu.Unlock()
		r.provider.Forget()
		if err := r.roundOf(ctx, workers); err != nil {
			return err
		}
	}
	return nil
}

// roundOf runs all workers for a round, then verifies and removes what they wrote.
func (r *run) roundOf(ctx context.Context, workers []worker) error {
	end := time.Now().Add(r.round)
	var wg sync.WaitGroup
	errs := make([]error, len(workers))
	for i, w := range workers {
		wg.Go(func() {
			for n := 0; errs[i] == nil && ctx.Err() == nil && time.Now().Before(end); n++ {
				errs[i] = r.operate(ctx, w, n)
				select {
				case <-ctx.Done():
				case <-time.After(r.pace):
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	after := context.WithoutCancel(ctx)
	for _, w := range r.writes {
		if err := r.verify(after, w); err != nil {
			return err
		}
	}
	for _, w := range r.writes {
		limited, cancel := context.WithTimeout(after, readLimit)
		err := r.eventually(limited, func() error { return w.drop(limited) })
		if cancel(); err != nil {
			return fmt.Errorf("cannot remove %s: %w", w.what, err)
		}
	}
	r.writes = nil
	select {
	case <-ctx.Done():
	case <-time.After(r.night):
	}
	return nil
}

// operate does one operation and verifies an earlier write of the round.
func (r *run) operate(ctx context.Context, w worker, n int) error {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	acknowledged, err := w.op(limited, r.rounds, n)
	if ctx.Err() != nil {
		return nil // the run ends
	}
	r.mu.Lock()
	r.done[w.kind]++
	if err != nil {
		// A client that a kill has hit fails; one whose request began long after does not.
		when := "during kills"
		if began.Before(r.began.Add(r.firstPhase + readLimit/12)) {
			r.failedDuring++
		} else {
			r.failedAfter++
			when = "undisturbed"
		}
		r.failures[fmt.Sprintf("%s, %s: %v", w.kind, when, err)]++
	}
	var earlier write
	if acknowledged != nil {
		r.acknowledged[w.kind]++
		acknowledged.time = time.Now()
		r.writes = append(r.writes, *acknowledged)
		earlier = r.writes[rand.IntN(len(r.writes))]
	}
	r.mu.Unlock()
	if acknowledged == nil {
		return nil
	}
	return r.verify(context.WithoutCancel(ctx), earlier)
}

// verify reads a write back. Services that start again are waited for.
func (r *run) verify(ctx context.Context, w write) error {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	found := false
	if err := r.eventually(ctx, func() (err error) {
		found, err = w.found(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("cannot read %s, acknowledged %s: %w", w.what, w.time.Format(time.TimeOnly), err)
	}
	if !found {
		return fmt.Errorf("%w: %s, acknowledged %s; last kills: %s; the files are in %s", errLost, w.what, w.time.Format(time.TimeOnly), r.series.lastKills(), r.keep())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verified++
	if r.series.killedSince(w.time) {
		r.verifiedAfterKill++
	}
	return nil
}

// keep copies the files of the world to the directory of the report.
func (r *run) keep() string {
	dir := filepath.Join(r.out, "lost")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(r.dir, "data"))); err != nil {
		return err.Error()
	}
	if err := os.CopyFS(filepath.Join(dir, "sessions"), os.DirFS(r.cfg.Mem.SessionsDir)); err != nil {
		return err.Error()
	}
	return dir
}

func (r *run) every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}

// kill kills a random service.
func (r *run) kill() {
	pids := r.pids()
	if len(pids) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(pids))
	name := names[rand.IntN(len(names))]
	r.series.killed(name, time.Now())
	_ = syscall.Kill(pids[name], syscall.SIGKILL) // an error: it has ended
}

// turn runs zino exec in a session of its kind and round.
func (r *run) turn(ctx context.Context, kind string, round, n int) (*write, error) {
	session, mark := fmt.Sprintf("%s-%d", kind, round), fmt.Sprintf("#%s %d of round %d.", kind, n, round)
	cmd := r.command(ctx, "exec", "--session", session, "-p", mark)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "Done." {
		return nil, fmt.Errorf("%q, %w, %q", out, cmp.Or(err, errors.New("another answer")), stderr.String())
	}
	w := &write{what: "the turn " + mark, found: func(ctx context.Context) (bool, error) {
		read := proto.ReadSession{SessionID: session}
		for asked := false; ; {
			page, err := rpc.Call(ctx, r.clients["mem"], proto.MemReadSession, read)
			if err != nil {
				return false, gone(err)
			}
			events := string(page.Events)
			if i := strings.Index(events, mark); i >= 0 {
				asked, events = true, events[i:]
			}
			if asked && strings.Contains(events, "Done.") || !page.More {
				return asked && strings.Contains(events, "Done."), nil
			}
			read.From = page.Next
		}
	}}
	w.drop = func(ctx context.Context) error {
		_, err := rpc.Call(ctx, r.clients["mem"], proto.MemRemoveSession, proto.RemoveSession{SessionID: session})
		return gone(err)
	}
	return w, nil
}

// gone returns nil for the error that something is not there.
func gone(err error) error {
	if e, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeNotFound {
		return nil
	}
	return err
}

// memory stores a hard memory.
func (r *run) memory(ctx context.Context, round, n int) (*write, error) {
	word := fmt.Sprintf("word%dx%d", round, n)
	text, err := json.Marshal([]map[string]string{{"role": "user", "content": "The soak remembers " + word}})
	if err != nil {
		return nil, err
	}
	stored, err := rpc.Call(ctx, r.clients["mem"], proto.MemStoreHard, proto.StoreHard{Messages: text})
	if err != nil {
		return nil, err
	}
	return &write{
		what: "the memory " + word,
		found: func(ctx context.Context) (bool, error) {
			hits, err := rpc.Call(ctx, r.clients["mem"], proto.MemSearchHard, proto.SearchHard{Query: word, TopK: new(1)})
			return err == nil && len(hits.Results) == 1 && strings.Contains(string(hits.Results[0].Messages), word), err
		},
		drop: func(ctx context.Context) error {
			_, err := rpc.Call(ctx, r.clients["mem"], proto.MemDeleteHard, proto.DeleteHard{ID: stored.ID})
			return gone(err)
		},
	}, nil
}

// history has the daemon answer in a channel.
func (r *run) history(ctx context.Context, round, n int) (*write, error) {
	channel, mark := fmt.Sprintf("round %d", round), fmt.Sprintf("#plain message %d.", n)
	if _, err := rpc.CallText(ctx, r.clients["daemon"], proto.DaemonChat, proto.Chat{Message: mark, ChannelID: channel}, nil); err != nil {
		return nil, err
	}
	w := &write{what: "the message " + mark, found: func(ctx context.Context) (bool, error) {
		all, err := rpc.Call(ctx, r.clients["mem"], proto.MemGetHistory, proto.GetHistory{ChannelID: channel})
		return err == nil && strings.Contains(string(all.Messages), mark), err
	}}
	w.drop = func(ctx context.Context) error {
		_, err := rpc.Call(ctx, r.clients["mem"], proto.MemClearHistory, proto.ClearHistory{ChannelID: channel})
		return gone(err)
	}
	return w, nil
}

// page connects a page, appends code to its file as an editor does, and waits for the
// reply in the file. The page leaves again.
func (r *run) page(ctx context.Context, round, n int) (*write, error) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	attached := make(chan proto.Attached, 1)
	go func() { // no reply comes once the page has ended
		err := r.attach(ctx, fmt.Sprintf("round %d", round), attached)
		leave(fmt.Errorf("the page ended: %w", cmp.Or(err, io.EOF)))
	}()
	var me proto.Attached
	select {
	case me = <-attached:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	file, mark := filepath.Join(r.cfg.Repl.Dir, me.File), fmt.Sprintf("'mark %d'", n)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString("```js\n" + mark + "\n```\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	found := func(context.Context) (bool, error) {
		text, err := os.ReadFile(file)
		_, after, asked := strings.Cut(string(text), mark)
		return asked && strings.Contains(after, "```JSON"), err
	}
	if err := r.eventually(ctx, func() error {
		if ok, err := found(ctx); err != nil || !ok {
			text, _ := os.ReadFile(file) // the error is found's
			return cmp.Or(err, fmt.Errorf("no reply in %q", text))
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	w := &write{what: "the reply to " + mark + " in " + me.File, found: found}
	w.drop = func(context.Context) error { return os.RemoveAll(file) }
	return w, nil
}

// attach is a page that answers each job with 2.
func (r *run) attach(ctx context.Context, name string, attached chan<- proto.Attached) error {
	client := &rpc.Client{Service: "repl", Path: r.cfg.Repl.Socket}
	defer client.Close()
	var me proto.Attached
	_, err := rpc.CallEvents(ctx, client, proto.ReplAttach, proto.Attach{Name: name}, func(typ string, payload []byte) error {
		switch typ {
		case "attached":
			if err := json.Unmarshal(payload, &me); err != nil {
				return err
			}
			attached <- me
		case "job":
			var job proto.Job
			if err := json.Unmarshal(payload, &job); err != nil {
				return err
			}
			_, err := rpc.Call(ctx, r.clients["repl"], proto.ReplResult, proto.JobResult{ID: me.ID, Nonce: me.Nonce, Job: job.Job, OK: true, Kind: "json", Value: "2"})
			return err
		}
		return nil
	})
	return err
}
