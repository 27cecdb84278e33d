package repl

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/url"
	"strings"

	"zino/proto"
	"zino/services/repl/page"
)

const (
	liveMax  = 300 // realms at a time
	goneMax  = 200 // transcripts kept in memory without a realm
	wordMax  = 32  // bytes of a language or a kind
	urlMax   = 2000
	nonceMax = 128
)

// Connect adds a realm until its Close. No two live realms have the same id: one
// that comes with the id of another gets a new one, unless it has the other's
// nonce as well. Then it is the same realm over a new connection, and the old one
// is closed.
func (s *Service) Connect(a proto.Attach) (*Realm, error) {
	r := s.newRealm(a)
	old, err := s.admit(r)
	for errors.Is(err, errTaken) {
		r.spare = s.spareID(r.attached.Name)
		old, err = s.admit(r)
	}
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.end()
	}
	if err := r.t.connect(r); err != nil {
		s.dismiss(r)
		return nil, err
	}
	s.forgetOld()
	return r, nil
}

// newRealm is a realm by its own account, made harmless.
func (s *Service) newRealm(a proto.Attach) *Realm {
	r := &Realm{
		s: s, url: plainURL(a.URL), lang: word(a.Lang, "js"), kind: word(a.Kind, "page"),
		ended: make(chan struct{}), wake: make(chan struct{}, 1), spare: s.spareID(page.Sanitize(a.Name)),
	}
	r.attached = proto.Attached{ID: a.ID, Name: page.Sanitize(a.Name), Nonce: a.Nonce}
	if a.Nonce == "" || len(a.Nonce) > nonceMax {
		r.attached.Nonce = random(16)
	}
	return r
}

// errTaken: another realm was quicker to take an id.
var errTaken = errors.New("the id is taken")

// admit gives a realm its id and its transcript, and returns the one that it
// takes the place of.
func (s *Service) admit(r *Realm) (old *Realm, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work.draining() {
		return nil, unavailable()
	}
	if old = s.live[r.attached.ID]; old != nil && old.attached.Nonce != r.attached.Nonce {
		old, r.attached.ID = nil, ""
	}
	if old == nil && len(s.live) >= liveMax {
		return nil, &proto.Error{Code: proto.CodeBusy, Message: "Too many pages are connected. Close some of them."}
	}
	if !page.IsShortID(r.attached.ID) {
		if s.live[r.spare] != nil {
			return nil, errTaken
		}
		r.attached.ID = r.spare
	}
	r.t = s.transcript(r.attached.Name, r.attached.ID, r.lang)
	r.attached.File = r.t.file
	r.t.status.live, r.t.status.url, r.t.status.kind = true, r.url, r.kind // as it is listed from now on
	s.live[r.attached.ID] = r
	return old, nil
}

// spareID is an id that nobody has, and no log either: of four digits, if there is
// one to be found.
func (s *Service) spareID(name string) string {
	for length := 4; ; length = min(length+1, 8) {
		id := random(4)[:length]
		s.mu.Lock()
		taken := s.live[id] != nil || s.transcripts[name+"-"+id] != nil
		s.mu.Unlock()
		if taken {
			continue
		}
		if _, err := s.dir.Stat(logName(name + "-" + id)); errors.Is(err, fs.ErrNotExist) || length == 8 {
			return id
		}
	}
}

// logName is the file of a transcript, relative to the REPL's directory.
func logName(base string) string { return logDir + "/" + base + ".md" }

// transcript is the one with that name and id, made if need be. mu is held.
func (s *Service) transcript(name, id, lang string) *transcript {
	base := name + "-" + id
	t := s.transcripts[base]
	if t == nil || t.lang != lang && !t.status.live && !t.status.busy {
		t = newTranscript(s, name, id, lang)
		s.transcripts[base] = t
	}
	return t
}

// dismiss takes a realm off the list.
func (s *Service) dismiss(r *Realm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[r.attached.ID] == r {
		delete(s.live, r.attached.ID)
	}
}

// forgetOld drops the transcripts that were without a realm for longest, if there
// are too many of them. Their files stay.
func (s *Service) forgetOld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.transcripts)-len(s.live) > goneMax {
		var oldest *transcript
		for _, t := range s.transcripts {
			if !t.status.live && !t.status.busy && (oldest == nil || t.status.seen.Before(oldest.status.seen)) {
				oldest = t
			}
		}
		if oldest == nil {
			return
		}
		delete(s.transcripts, oldest.base)
	}
}

// random is n random bytes as hexadecimal digits.
func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// word is a short word of a realm's, in lower case and of harmless characters.
func word(s, usual string) string {
	s = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune(" +-#._", c) {
			return c
		}
		return -1
	}, strings.ToLower(s[:min(len(s), wordMax)]))
	if s = strings.TrimSpace(s); s == "" {
		return usual
	}
	return s
}

// plainURL is an address without what may be secret: user, query and fragment.
func plainURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || len(s) > urlMax {
		return ""
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment, u.ForceQuery = nil, "", "", "", false
	return u.String()
}
