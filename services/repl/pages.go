package repl

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/repl/page"
)

const (
	liveMax   = 500    // connected pages
	goneMax   = 200    // logs kept in memory without a page
	titleMax  = 200    // bytes
	placeMax  = 100    // bytes of the place of an event
	labelMax  = 32     // bytes of a language or a kind
	urlMax    = 2000   // bytes
	nonceMax  = 128    // bytes
	eventsMax = 10_000 // events of one packet that are read; of more the middle would be omitted anyway
)

// Page is a connected page, as its transport sees it: a page, a worker or a frame of
// a browser, or a program.
type Page struct {
	s               *Service
	log             *pageLog
	attached        proto.Attached
	title           string // what it calls itself now
	url, lang, kind string
	ready           bool // the log has the page: it is listed and runs code; guarded by Service.mu

	once  sync.Once
	ended chan struct{}
	wake  chan struct{} // has an element if there may be packets

	mu      sync.Mutex
	packets []packet                          // not sent yet: at most one job, outlines, and jobs to be cancelled
	looks   map[string]chan<- proto.JobResult // callers of outline, by job
}

// packet is a message to a page or to a watcher.
type packet struct {
	typ  string
	body any
}

// Connect adds a page until its Close. No two connected pages have the same id: a
// page with the id of another gets a new one, unless it has the other's nonce as
// well. Then it is the same page over a new connection, and the old one is closed.
func (s *Service) Connect(a proto.Attach) (*Page, error) {
	p := &Page{
		s: s, url: plainURL(a.URL), lang: plainLabel(a.Lang, "js"), kind: plainLabel(a.Kind, "page"),
		ended: make(chan struct{}), wake: make(chan struct{}, 1), looks: map[string]chan<- proto.JobResult{},
		title:    plainTitle(a.Name),
		attached: proto.Attached{ID: a.ID, Name: page.Sanitize(a.Name), Nonce: a.Nonce},
	}
	if a.Nonce == "" || len(a.Nonce) > nonceMax {
		p.attached.Nonce = random(16)
	}
	old, replaced, err := s.admit(p)
	for errors.Is(err, errIDTaken) { // another page was given the new id first
		old, replaced, err = s.admit(p)
	}
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.end()
	}
	if replaced != nil {
		replaced.close()
	}
	if err := p.log.connect(p); err != nil {
		s.dismiss(p)
		return nil, err
	}
	s.forgetOldLogs()
	return p, nil
}

// errIDTaken: another page has got the id since it was found to be free.
var errIDTaken = errors.New("the new id is taken")

// admit gives a page its id and its log. It returns the page that it replaces, and the
// log of another language.
func (s *Service) admit(p *Page) (old *Page, replaced *pageLog, err error) {
	names, err := s.logNames()
	newID := s.newID(names)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.work.draining():
		return nil, nil, unavailable()
	case err != nil:
		return nil, nil, err
	}
	if old = s.live[p.attached.ID]; old != nil && old.attached.Nonce != p.attached.Nonce {
		old, p.attached.ID = nil, ""
	}
	if old == nil && len(s.live) >= liveMax {
		return nil, nil, &proto.Error{Code: proto.CodeBusy, Message: "Too many pages are connected. Close some of them."}
	}
	if !page.IsShortID(p.attached.ID) {
		if s.live[newID] != nil || s.logs[newID] != nil {
			return nil, nil, errIDTaken
		}
		p.attached.ID = newID
	}
	// The id is the identity: the file keeps the name that it was created with.
	l := s.logs[p.attached.ID]
	if l == nil || l.lang != p.lang && !l.listed.live && !l.listed.pending {
		name := p.attached.Name
		switch {
		case l != nil:
			name, replaced = l.name, l
		case names[p.attached.ID] != "":
			name = names[p.attached.ID]
		}
		l = newPageLog(s, name, p.attached.ID, p.lang)
		s.logs[l.id] = l
	}
	p.log, p.attached.Name, p.attached.File = l, l.name, l.file
	l.listed.live, l.listed.title, l.listed.url, l.listed.kind = true, p.title, p.url, p.kind
	s.live[p.attached.ID] = p
	p.ready = old != nil && old.ready
	return old, replaced, nil
}

// dismiss removes a page from the list.
func (s *Service) dismiss(p *Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[p.attached.ID] == p {
		delete(s.live, p.attached.ID)
	}
}

// forgetOldLogs drops the logs that were without a page for longest, if there are
// too many of them. Their files stay.
func (s *Service) forgetOldLogs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.logs)-len(s.live) > goneMax {
		var oldest *pageLog
		for _, l := range s.logs {
			if !l.listed.live && !l.listed.pending && (oldest == nil || l.listed.seen.Before(oldest.listed.seen)) {
				oldest = l
			}
		}
		if oldest == nil {
			return
		}
		delete(s.logs, oldest.id)
	}
}

// random returns n random bytes as hexadecimal digits.
func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// plainLabel makes a language or a kind harmless: short, lower case, few characters.
func plainLabel(s, usual string) string {
	s = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune(" +-#._", c) {
			return c
		}
		return -1
	}, strings.ToLower(s[:min(len(s), labelMax)]))
	if s = strings.TrimSpace(s); s == "" {
		return usual
	}
	return s
}

// plainTitle makes a title harmless: one line of printable characters.
func plainTitle(s string) string {
	return text.Clip(text.VisibleLine(strings.TrimSpace(strings.ToValidUTF8(s[:min(len(s), 4*titleMax)], ""))), titleMax)
}

// plainURL returns an address without user, query and fragment, which may be secret.
func plainURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || len(s) > urlMax {
		return ""
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment, u.ForceQuery = nil, "", "", "", false
	return u.String()
}

// Attached returns the page's identity, the first packet that it gets.
func (p *Page) Attached() proto.Attached { return p.attached }

// Next waits for the next packet to the page: "job" with a [proto.Job], or "cancel"
// with a [proto.JobName]. A job that is returned counts as sent. The error is ctx's,
// or io.EOF when the page or the service is closed.
func (p *Page) Next(ctx context.Context) (typ string, body any, err error) {
	for {
		select { // nothing is sent after the end
		case <-p.ended:
			return "", nil, io.EOF
		default:
		}
		p.mu.Lock()
		if len(p.packets) > 0 {
			next := p.packets[0]
			p.packets = slices.Delete(p.packets, 0, 1)
			p.mu.Unlock()
			if job, ok := next.body.(proto.Job); ok && job.Outline == nil {
				p.log.mu.Lock()
				if p.log.page == p && !p.log.closed {
					p.log.apply(page.Started{At: time.Now(), Job: job.Job})
				}
				p.log.mu.Unlock()
			}
			return next.typ, next.body, nil
		}
		p.mu.Unlock()
		select {
		case <-p.wake:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		case <-p.ended:
		case <-p.s.closed:
			return "", nil, io.EOF
		}
	}
}

// Close disconnects the page. A job that runs in it has failed.
func (p *Page) Close() {
	p.s.dismiss(p)
	p.end()
}

// end is Close for a page that is off the list.
func (p *Page) end() {
	p.once.Do(func() {
		close(p.ended)
		p.log.disconnect(p)
	})
}

func (p *Page) send(typ string, body any) {
	p.mu.Lock()
	p.packets = append(p.packets, packet{typ, body})
	p.mu.Unlock()
	signal(p.wake)
}

// cancel takes a job back, or sends a cancel packet if the job was sent already.
func (p *Page) cancel(job string) {
	p.mu.Lock()
	n := len(p.packets)
	p.packets = slices.DeleteFunc(p.packets, func(packet packet) bool {
		j, ok := packet.body.(proto.Job)
		return ok && j.Job == job
	})
	unsent := len(p.packets) < n
	p.mu.Unlock()
	if !unsent {
		p.send(proto.TypeCancel, proto.JobName{Job: job})
	}
}

// attach serves a page of the socket for as long as its connection is open.
func (s *Service) attach(ctx context.Context, req proto.Attach, out *rpc.Out) (proto.Empty, error) {
	p, err := s.Connect(req)
	if err != nil {
		return proto.Empty{}, err
	}
	defer p.Close()
	if err := out.Event(proto.TypeAttached, p.Attached()); err != nil {
		return proto.Empty{}, err
	}
	for {
		typ, packet, err := p.Next(ctx)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return proto.Empty{}, nil
		}
		if err == nil {
			err = out.Event(typ, packet)
		}
		if err != nil {
			return proto.Empty{}, err
		}
	}
}

// Pages lists the connected pages in the order of their names.
func (s *Service) Pages(context.Context, proto.PagesRequest) (proto.Pages, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pages := make([]proto.Page, 0, len(s.live))
	for _, p := range s.live {
		if p.ready {
			pages = append(pages, p.log.describe())
		}
	}
	slices.SortFunc(pages, func(a, b proto.Page) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return proto.Pages{Pages: pages}, nil
}

// Events takes what happened in a page beside its jobs.
func (s *Service) Events(_ context.Context, req proto.PageEvents) (proto.Empty, error) {
	p, err := s.livePage(req.ID, req.Nonce)
	if err != nil || len(req.Events) == 0 {
		return proto.Empty{}, err
	}
	events := make([]page.Captured, 0, min(len(req.Events), eventsMax))
	now := time.Now().Format(eventTime)
	req.Events = req.Events[:min(len(req.Events), eventsMax)]
	for i := range req.Events {
		e := &req.Events[i]
		if _, err := time.Parse(time.TimeOnly, e.TS); err != nil { // it accepts a fraction
			e.TS = now
		}
		e.TS = e.TS[:min(len(e.TS), len(eventTime))]
		events = append(events, captured(*e))
	}
	l := p.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.page != p {
		return proto.Empty{}, unavailable()
	}
	for _, e := range req.Events {
		l.events.add(e)
	}
	l.apply(page.Background{At: time.Now(), Events: events})
	return proto.Empty{}, nil
}

// eventTime is the format of the time of an event.
const eventTime = "15:04:05.000"

// captured returns an event for package page. Without a source its type is made of
// type and level: "console.log".
func captured(e proto.PageEvent) page.Captured {
	source := e.Source
	if source == "" {
		source = e.Type
		if e.Type == "console" && e.Level != "" {
			source += "." + e.Level
		}
	}
	return page.Captured{Type: source, Level: e.Level, Message: e.Message, Stack: e.Stack, Time: e.TS, Place: text.Clip(text.VisibleLine(text.Clip(e.Place, urlMax)), placeMax)}
}

// livePage returns the connected page with an id and a nonce.
func (s *Service) livePage(id, nonce string) (*Page, error) {
	s.mu.Lock()
	p := s.live[id]
	s.mu.Unlock()
	if p == nil || !equal(p.attached.Nonce, nonce) {
		return nil, &proto.Error{Code: proto.CodeUnknown, Message: "No page with that id and nonce is connected. Attach first."}
	}
	s.seen(p.log, func(*listed) {})
	return p, nil
}

// equal compares secrets in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// seen notes that a page has sent something.
func (s *Service) seen(l *pageLog, change func(*listed)) {
	s.mu.Lock()
	l.listed.seen = time.Now()
	change(&l.listed)
	s.mu.Unlock()
	s.registry.aged()
}
