package repl

import (
	"context"
	"io"
	"slices"
	"sync"

	"zino/proto"
	"zino/services/repl/page"
)

// Realm is a connected realm, as a transport sees it.
type Realm struct {
	s               *Service
	t               *transcript
	attached        proto.Attached
	url, lang, kind string
	spare           string // an id, should it need one

	once  sync.Once
	ended chan struct{}
	wake  chan struct{} // has an element if there may be packets

	mu      sync.Mutex
	packets []packet // not sent yet: one job at most, and what is to be cancelled
}

// packet is what a realm is told.
type packet struct {
	typ  string
	body any
}

// Attached tells the realm who it is.
func (r *Realm) Attached() proto.Attached { return r.attached }

// Next waits for the next packet to be sent to the realm: "job" with a
// [proto.Job], or "cancel" with a [proto.JobName]. A job that is returned counts
// as sent. The error is ctx's, or io.EOF when the realm or the service is closed.
func (r *Realm) Next(ctx context.Context) (typ string, body any, err error) {
	for {
		select { // nothing is sent once it has ended
		case <-r.ended:
			return "", nil, io.EOF
		default:
		}
		if p, ok := r.take(); ok {
			if job, ok := p.body.(proto.Job); ok {
				r.t.started(r, job.Job)
			}
			return p.typ, p.body, nil
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		case <-r.ended:
		case <-r.s.closed:
			return "", nil, io.EOF
		}
	}
}

// Close tells that the realm is gone. What runs in it has failed.
func (r *Realm) Close() {
	r.s.dismiss(r)
	r.end()
}

// end is Close, for a realm that is off the list.
func (r *Realm) end() {
	r.once.Do(func() {
		close(r.ended)
		r.t.disconnect(r)
	})
}

func (r *Realm) take() (packet, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.packets) == 0 {
		return packet{}, false
	}
	p := r.packets[0]
	r.packets = slices.Delete(r.packets, 0, 1)
	return p, true
}

func (r *Realm) send(typ string, body any) {
	r.mu.Lock()
	r.packets = append(r.packets, packet{typ, body})
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// cancel takes a job back, or tells the realm that nobody waits for it any more
// if it was sent already.
func (r *Realm) cancel(job string) {
	r.mu.Lock()
	n := len(r.packets)
	r.packets = slices.DeleteFunc(r.packets, func(p packet) bool {
		j, ok := p.body.(proto.Job)
		return ok && j.Job == job
	})
	unsent := len(r.packets) < n
	r.mu.Unlock()
	if !unsent {
		r.send("cancel", proto.JobName{Job: job})
	}
}

// job is what a realm is told to run.
func (r *Realm) job(run page.Run) {
	r.send("job", proto.Job{Job: run.Job, Code: run.Code, Lang: r.lang, TimeoutMS: max(1, run.Timeout.Milliseconds())})
}
