package repl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	lookPrefix  = "look-"          // of the names of jobs that are not recorded
	lookTimeout = 10 * time.Second // for an outline
	depthMax    = 100              // levels of an outline
	outlineMax  = 64 << 10         // bytes
)

// Outline returns what a page shows. The job goes to the page beside those of its file,
// so it is also answered while one of them waits, and nothing is recorded.
func (s *Service) Outline(ctx context.Context, req proto.OutlinePage) (proto.Outline, error) {
	if req.Depth < 0 || req.Depth > depthMax {
		return proto.Outline{}, invalidField("depth", fmt.Sprintf("it is 0 to %d", depthMax))
	}
	l, err := s.connectedLog(req.Page)
	if err != nil {
		return proto.Outline{}, err
	}
	if l.lang != "js" {
		return proto.Outline{}, &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("Page %s runs %s code and has no document.", l.base, l.lang)}
	}
	if !s.work.begin() {
		return proto.Outline{}, unavailable()
	}
	defer s.work.end()
	s.mu.Lock()
	p := s.live[l.id]
	s.mu.Unlock()
	if p == nil {
		return proto.Outline{}, notConnected(req.Page)
	}
	return p.outline(ctx, req)
}

// outline asks the page for its outline and waits for the answer.
func (p *Page) outline(ctx context.Context, req proto.OutlinePage) (proto.Outline, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookTimeout, &proto.Error{Code: proto.CodeBusy, Message: fmt.Sprintf(
		"Page %s did not answer within %s: its code blocks it, or the browser has frozen the tab. Try again later.", p.log.base, lookTimeout)})
	defer cancel()
	job, answer := lookPrefix+random(8), make(chan proto.JobResult, 1)
	p.mu.Lock()
	p.looks[job] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.looks, job)
	}()
	p.send(proto.TypeJob, proto.Job{
		Job: job, Code: fmt.Sprintf("zino.outline(%s, %d)", wire.AppendString(nil, req.Selector), req.Depth), Lang: p.lang,
		TimeoutMS: lookTimeout.Milliseconds(), Outline: &proto.Look{Selector: req.Selector, Depth: req.Depth},
	})
	select {
	case r := <-answer:
		if !r.OK {
			message, _, _ := strings.Cut(r.Error, "\n    at ") // without the stack
			return proto.Outline{}, &proto.Error{Code: proto.CodeInvalid, Message: text.Clip(text.Visible(message), 2000)}
		}
		return proto.Outline{Text: text.Middle(text.Visible(r.Value), outlineMax*3/4, outlineMax/8, "\n... (%d bytes left out) ...\n")}, nil
	case <-p.ended:
		return proto.Outline{}, notConnected(p.log.base)
	case <-p.s.closed:
		return proto.Outline{}, unavailable()
	case <-ctx.Done():
		p.cancel(job)
		return proto.Outline{}, context.Cause(ctx)
	}
}

// looked passes the result of an outline's job to its caller.
func (s *Service) looked(r proto.JobResult) (proto.Empty, error) {
	p, err := s.livePage(r.ID, r.Nonce)
	if err != nil {
		return proto.Empty{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := p.looks[r.Job]
	if answer == nil {
		return proto.Empty{}, jobUnknown()
	}
	delete(p.looks, r.Job)
	answer <- r
	return proto.Empty{}, nil
}
