package mem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/mem/store"
)

// proposing returns a request that proposes a memory, with more fields.
func proposing(text, more string) string {
	return `{"type":"store_hard","messages":[` + msg(text) + `],"proposed":true` + more + `}`
}

func proposed(id int) string { return fmt.Sprintf(`{"type":"ok","id":%d,"proposed":true}`, id) }

func accept(id int) string { return fmt.Sprintf(`{"type":"accept_proposal","id":%d}`, id) }

func reject(id int) string { return fmt.Sprintf(`{"type":"reject_proposal","id":%d}`, id) }

const (
	listProposals = `{"type":"list_proposals"}`
	noProposals   = `{"type":"proposals","items":[]}`
)

// TestProposals proposes, accepts and rejects memories.
func TestProposals(t *testing.T) {
	m := start(t, "")
	m.want(listProposals, noProposals)
	m.want(keep("house", msg("the key hangs behind the clock")), stored(0))
	m.want(proposing("the key is with Ada", `,"tag":"house","session_id":"s-1","channel_id":"#home","replaces":0`), proposed(1))
	m.want(proposing("the key is with Ada", `,"tag":"house","replaces":"0"`), proposed(1))
	m.want(proposing("password", ""), proposed(2))
	m.want(proposing("the key hangs behind the clock", `,"tag":"house"`), stored(0))
	m.want(`{"type":"search_hard","query":"Ada password"}`, replyOf())
	list := m.ask(listProposals)
	zinotest.Contains(t, "the list", list, `{"id":1,"messages":[`+msg("the key is with Ada")+`],"tag":"house","channel_id":"#home","session_id":"s-1","created":"2`,
		`"replaces":{"id":0,"messages":[`+msg("the key hangs behind the clock")+`],"tag":"house","created":"2`, `{"id":2,"messages":[`+msg("password"))
	if next := m.ask(`{"type":"list_proposals","after":1}`); strings.Contains(next, "Ada") || !strings.Contains(next, "password") {
		t.Errorf("after 1: %s", next)
	}

	m.want(reject(2), ok)
	if strings.Contains(m.read(proposalsFile), "password") {
		t.Error("the file contains a rejected text")
	}
	m.want(accept(1), stored(1))
	for _, request := range []string{accept(1), reject(1), accept(2), reject(2), accept(3), accept(0), reject(-1)} {
		m.wantError(request, "not_found", "there is no proposal")
	}
	m.want(listProposals, noProposals)
	m.want(`{"type":"search_hard","query":"clock"}`, replyOf())
	zinotest.Contains(t, "the replaced memory", m.ask(`{"type":"get_hard","id":0}`), `"replaced_by":1}`)
	zinotest.Contains(t, "the accepted memory", m.ask(`{"type":"get_hard","id":1}`), msg("the key is with Ada"), `"channel_id":"#home","session_id":"s-1"`)
	zinotest.Contains(t, "all memories", m.ask(`{"type":"list_hard"}`), `"replaced_by":1}`)
	zinotest.Equal(t, "the file", m.read(proposalsFile), "{\"next\":3}\n")

	m.want(proposing("bread", `,"tag":"food"`), proposed(3))
	m.want(`{"type":"accept_proposal","id":3,"messages":[`+msg("rye bread")+`],"tag":""}`, stored(2))
	zinotest.Contains(t, "the edited memory", m.ask(`{"type":"get_hard","id":2}`), msg("rye bread")+`],"created"`)
}

// TestProposalsInvalid sends requests that store nothing.
func TestProposalsInvalid(t *testing.T) {
	m := start(t, "")
	m.want(keep("", msg("a")), stored(0))
	for _, more := range []string{"", `,"proposed":true`} {
		for _, id := range []string{"7", "-1"} {
			m.wantError(`{"type":"store_hard","messages":[`+msg("b")+`],"replaces":`+id+more+`}`, "not_found", "there is no memory "+id)
		}
		m.wantError(`{"type":"store_hard","messages":[`+msg("b")+`],"replaced_by":-2`+more+`}`, "invalid", "replaced_by")
	}
	m.wantError(proposing("b", `,"replaced_by":0`), "invalid", "replaced_by")
	m.wantError(`{"type":"store_hard","messages":[{"role":"user"}],"proposed":true}`, "invalid", "messages[0]")
	m.want(proposing("b", ""), proposed(1))
	m.wantError(`{"type":"accept_proposal","id":1,"messages":[7]}`, "invalid", "messages[0]")
	m.want(accept(1), stored(1))
	zinotest.Equal(t, "memories", strings.Count(m.read(hardFile), "role"), 2)
}

// TestProposalOfAReplacedMemory accepts two proposals for one memory, and one for a
// memory that was deleted.
func TestProposalOfAReplacedMemory(t *testing.T) {
	m := start(t, "")
	m.want(keep("", msg("tea one")), stored(0))
	m.want(proposing("tea two", `,"replaces":0`), proposed(1))
	m.want(proposing("tea three", `,"replaces":0`), proposed(2))
	m.want(proposing("tea four", `,"replaces":0`), proposed(3))
	m.want(accept(1), stored(1))
	zinotest.Contains(t, "the list", m.ask(listProposals), `"replaces":{"id":1,`)
	m.want(accept(2), stored(2))
	zinotest.Contains(t, "the first replacement", m.ask(`{"type":"get_hard","id":1}`), `"replaced_by":2`)
	for id := range 3 {
		m.want(fmt.Sprintf(`{"type":"delete_hard","id":%d}`, id), ok)
	}
	if list := m.ask(listProposals); strings.Contains(list, "replaces") {
		t.Errorf("a deleted memory would be replaced: %s", list)
	}
	m.want(accept(3), stored(3))
}

// TestProposalsExpire waits 90 days.
func TestProposalsExpire(t *testing.T) {
	m := start(t, "")
	now := time.Now()
	m.s.now = func() time.Time { return now }
	m.want(proposing("first", ""), proposed(1))
	now = now.Add(proposalAge - time.Minute)
	m.want(proposing("second", ""), proposed(2))
	zinotest.Equal(t, "proposals", strings.Count(m.ask(listProposals), "role"), 2)
	now = now.Add(time.Minute)
	if list := m.ask(listProposals); strings.Contains(list, "first") || !strings.Contains(list, "second") {
		t.Errorf("after 90 days: %s", list)
	}
	if strings.Contains(m.read(proposalsFile), "first") {
		t.Error("the file contains an expired text")
	}
	m.wantError(accept(1), "not_found", "there is no proposal 1")
	now = now.Add(proposalAge)
	m.want(listProposals, noProposals)
	m.want(proposing("third", ""), proposed(3))
}

// TestProposalsLimits fills the inbox and lists it in pages.
func TestProposalsLimits(t *testing.T) {
	m := start(t, "")
	m.s.room = 4000
	var lines strings.Builder
	for id := 1; id <= proposalsMax; id++ {
		fmt.Fprintf(&lines, "{\"id\":%d,\"messages\":[%s],\"time\":%q}\n", id, msg(fmt.Sprint("memory ", id)), time.Now().Format(time.RFC3339))
	}
	m.write(proposalsFile, lines.String())
	m.wantError(proposing("one more", ""), "unavailable", "zino memory inbox")
	seen, pages := 0, 0
	for after := new(0); after != nil; pages++ {
		list, err := m.s.listProposals(t.Context(), proto.ListProposals{After: *after})
		zinotest.Must(t, err)
		for _, item := range list.Items {
			if seen++; item.ID != seen {
				t.Fatalf("proposal %d at %d", item.ID, seen)
			}
		}
		after = list.Next
	}
	if seen != proposalsMax || pages < 10 {
		t.Errorf("%d proposals on %d pages", seen, pages)
	}
	m.want(reject(500), ok)
	m.want(proposing("one more", ""), proposed(proposalsMax+1))
}

// interrupted is the file of a proposal whose acceptance was interrupted.
func interrupted(least int, text string) string {
	return `{"id":1,"replaces":0,"messages":[` + msg("tea two") + `],"tag":"","time":"` + time.Now().UTC().Format(time.RFC3339) + "\"}\n" +
		fmt.Sprintf(`{"id":1,"accepting":%d,"messages":[%s],"tag":""}`, least, msg(text)) + "\n"
}

// TestInterruptedAccept continues after a crash before the memory was stored, before the
// old one was replaced, and before the proposal was removed.
func TestInterruptedAccept(t *testing.T) {
	t.Run("not stored", func(t *testing.T) {
		m := start(t, "")
		m.want(keep("", msg("tea one")), stored(0))
		m.write(proposalsFile, interrupted(1, "tea edited"))
		zinotest.Contains(t, "the list", m.ask(listProposals), "tea two")
		m.want(accept(1), stored(1))
		zinotest.Contains(t, "the memory", m.ask(`{"type":"get_hard","id":1}`), "tea two")
	})
	t.Run("stored before the proposal", func(t *testing.T) {
		m := start(t, "")
		m.want(keep("", msg("tea one")), stored(0))
		m.want(keep("", msg("tea two")), stored(1))
		m.write(proposalsFile, interrupted(2, "tea two"))
		m.want(reject(1), ok)
	})
	for _, how := range []string{"accept", "reject"} {
		t.Run(how, func(t *testing.T) {
			m := start(t, "")
			m.want(keep("", msg("tea one")), stored(0))
			m.want(keep("", msg("tea edited")), stored(1))
			m.write(proposalsFile, interrupted(1, "tea edited"))
			m.want(listProposals, noProposals)
			if how == "accept" {
				m.want(accept(1), stored(1))
			} else {
				m.wantError(reject(1), "not_found", "proposal 1 was accepted as memory 1")
			}
			m.wantError(accept(1), "not_found", "there is no proposal 1")
			zinotest.Contains(t, "the old memory", m.ask(`{"type":"get_hard","id":0}`), `"replaced_by":1`)
			zinotest.Equal(t, "memories", strings.Count(m.ask(`{"type":"list_hard"}`), "role"), 2)
		})
	}
}

// openService opens a data directory as another process would.
func openService(t testing.TB, dir string) *Service {
	t.Helper()
	s, err := Open(config.Mem{DataDir: dir, Durability: "os"}, slog.New(slog.DiscardHandler))
	zinotest.Must(t, err)
	t.Cleanup(func() { zinotest.Must(t, s.Close()) })
	return s
}

func proposeText(s *Service, text string) (int, error) {
	reply, err := s.storeHard(context.Background(), proto.StoreHard{Messages: said(text), Proposed: true})
	return reply.ID, err
}

// TestAcceptOnce accepts and rejects proposals from two services at once: each is decided
// once.
func TestAcceptOnce(t *testing.T) {
	dir := zinotest.Dir(t)
	services := []*Service{openService(t, dir), openService(t, dir)}
	const count = 30
	for i := range count {
		_, err := proposeText(services[i%2], fmt.Sprint("memory ", i))
		zinotest.Must(t, err)
	}
	var mu sync.Mutex
	decided, accepted := map[int]int{}, 0
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for id := 1; id <= count; id++ {
				var err error
				if w == 3 {
					_, err = services[w%2].rejectProposal(t.Context(), proto.RejectProposal{ID: id})
				} else {
					_, err = services[w%2].acceptProposal(t.Context(), proto.AcceptProposal{ID: id, Tag: new(fmt.Sprint(w))})
				}
				mu.Lock()
				if err == nil {
					if decided[id]++; w < 3 {
						accepted++
					}
				} else if !errors.Is(err, proto.ErrNotFound) {
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for id := 1; id <= count; id++ {
		zinotest.Equal(t, fmt.Sprint("decisions on ", id), decided[id], 1)
	}
	n, err := services[0].memories.Len(t.Context())
	zinotest.Must(t, err)
	zinotest.Equal(t, "memories", n, accepted)
}

// acceptForever proposes memories and accepts them, those of killed processes first,
// until it is killed. It prints the text of each proposal and of each accepted one.
func acceptForever(args []string) error {
	s, err := Open(config.Mem{DataDir: args[0], Durability: "os"}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	ctx := context.Background()
	for i := 0; ; i++ {
		text := fmt.Sprintf("memory %d of %d", i, os.Getpid())
		if _, err := proposeText(s, text); err != nil {
			return err
		}
		fmt.Println("proposed", text)
		list, err := s.listProposals(ctx, proto.ListProposals{})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			req := proto.AcceptProposal{ID: p.ID, Messages: said(fmt.Sprintf("%s, accepted by %d", says(store.Memory{Messages: p.Messages}), os.Getpid()))}
			if _, err := s.acceptProposal(ctx, req); err != nil && !errors.Is(err, proto.ErrNotFound) {
				return err
			}
			fmt.Println("accepted", p.ID)
		}
	}
}

// TestKilledAccept repeatedly kills processes that propose and accept memories. Each
// proposal must be stored once in the end, also if a person edited it differently.
func TestKilledAccept(t *testing.T) {
	t.Parallel()
	dir := zinotest.Dir(t)
	var mu sync.Mutex
	texts := map[string]int{}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 30 {
				cmd := zinotest.Command(t, "accepter", dir)
				cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
				lines := zinotest.KillAfter(t, cmd, 1+rand.IntN(12))
				mu.Lock()
				for _, line := range lines {
					if text, ok := strings.CutPrefix(line, "proposed "); ok {
						texts[text] = 0
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s := openService(t, dir)
	list, err := s.listProposals(t.Context(), proto.ListProposals{})
	zinotest.Must(t, err)
	for _, p := range list.Items {
		_, err := s.acceptProposal(t.Context(), proto.AcceptProposal{ID: p.ID})
		zinotest.Must(t, err)
	}
	for v, err := range s.memories.Scan(t.Context(), store.Filter{}) {
		zinotest.Must(t, err)
		text, _, _ := strings.Cut(says(v), ",")
		texts[text]++
	}
	for text, n := range texts {
		if n != 1 {
			t.Errorf("%q is stored %d times", text, n)
		}
	}
	t.Logf("%d proposals, %d open at the end", len(texts), len(list.Items))
	if len(texts) < 50 {
		t.Errorf("only %d proposals", len(texts))
	}
}

// TestDamagedProposals reads every prefix of a file, alone and followed by zeros or by
// foreign lines: complete proposals are served, and the file stays usable.
func TestDamagedProposals(t *testing.T) {
	whole := "{\"next\":5}\n" + `{"id":5,"messages":[` + msg("first") + `],"tag":"x","time":"` + time.Now().UTC().Format(time.RFC3339) + "\"}\n" +
		`{"id":6,"messages":[` + msg("second") + "]}\n"
	ends := []int{strings.Index(whole, "{\"id\":6") - 1, len(whole) - 1}
	for cut := range len(whole) + 1 {
		for _, tail := range []string{"", "\x00\x00", "\n[]\n\xff\n{\"id\":1}\n"} {
			dir := zinotest.Dir(t)
			zinotest.Write(t, filepath.Join(dir, proposalsFile), whole[:cut]+tail)
			s := openService(t, dir)
			list, err := s.listProposals(t.Context(), proto.ListProposals{})
			zinotest.Must(t, err)
			want := 0
			for _, end := range ends {
				if cut >= end {
					want++
				}
			}
			if len(list.Items) != want {
				t.Fatalf("cut at %d, then %q: %d proposals, want %d", cut, tail, len(list.Items), want)
			}
			id, err := proposeText(s, "third")
			zinotest.Must(t, err)
			_, err = s.acceptProposal(t.Context(), proto.AcceptProposal{ID: id})
			zinotest.Must(t, err)
			if rest := zinotest.Read(t, filepath.Join(dir, proposalsFile)); strings.Contains(rest, "third") || strings.Count(rest, "role") < want {
				t.Fatalf("cut at %d, then %q: the file is %q", cut, tail, rest)
			}
		}
	}
}

// FuzzProposals reads foreign files. A rewritten file has the same proposals, whose ids
// are unique and below the next one.
func FuzzProposals(f *testing.F) {
	f.Add("{\"next\":3}\n" + interrupted(0, "tea"))
	f.Add(`{"id":1,"messages":[]}` + "\n" + `{"id":1,"decided":true}` + "\n")
	f.Add(`{"id":9007199254740993,"messages":[]}` + "\n" + `{"id":2,"deleted":true,"messages":[]}` + "\n{\"id\":2,\"accepting\":0}\n")
	f.Add("\ufeff{\"id\":\"1\",\"messages\":[{\"role\":\"\\ud800\",\"content\":\"\"}],\"tag\":\"\xff\",\"replaces\":0}")
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		in, err := parseInbox(strings.NewReader(text), int64(len(text)), now)
		zinotest.Must(t, err)
		file := string(in.text())
		again, err := parseInbox(strings.NewReader(file), int64(len(file)), now)
		zinotest.Must(t, err)
		zinotest.Equal(t, "the file written again", string(again.text()), file)
		zinotest.Equal(t, "proposals", len(again.list), len(in.list))
		for i, p := range in.list {
			q := again.list[i]
			if p.id < 1 || p.id >= in.next || in.find(p.id) != p {
				t.Errorf("proposal %d, next %d", p.id, in.next)
			}
			if p.id != q.id || p.replaces != q.replaces || p.fingerprint() != q.fingerprint() || (p.accepting == nil) != (q.accepting == nil) {
				t.Errorf("%+v became %+v", p, q)
			}
			written := &proposal{id: p.id, entry: p.entry, replaces: p.replaces}
			if r, err := parseRecord(written.line()); err != nil || r.id != p.id || r.replaces != p.replaces || r.fingerprint() != p.fingerprint() {
				t.Errorf("%q: %+v, %v", written.line(), r, err)
			}
		}
	})
}

func TestProposalsDiskFull(t *testing.T) {
	dir, done := zinotest.OnSmallDisk(t, "size=256k")
	if done {
		return
	}
	s, err := Open(config.Mem{DataDir: dir, Durability: "fsync"}, slog.New(slog.DiscardHandler))
	zinotest.Must(t, err)
	defer s.Close()
	_, err = proposeText(s, "first")
	zinotest.Must(t, err)
	free := zinotest.Fill(t, dir)
	big := strings.Repeat("x", 20_000)
	_, err = proposeText(s, big)
	zinotest.Error(t, err, syscall.ENOSPC, proposalsFile, "no space left")
	_, err = s.acceptProposal(t.Context(), proto.AcceptProposal{ID: 1, Messages: said(big)})
	zinotest.Error(t, err, syscall.ENOSPC, "no space left")
	list, err := s.listProposals(t.Context(), proto.ListProposals{})
	zinotest.Must(t, err)
	zinotest.Equal(t, "proposals", len(list.Items), 1)
	free()
	reply, err := s.acceptProposal(t.Context(), proto.AcceptProposal{ID: 1})
	zinotest.Must(t, err)
	zinotest.Equal(t, "the memory's id", reply.ID, 0)
}
