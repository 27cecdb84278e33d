package mem

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/mem/embed"
)

const embedModel = "ollama/nomic-embed-text"

// embedder is an rtr that answers embed alone, with the vectors of package fakellm.
type embedder struct {
	t    *testing.T
	path string

	mu     sync.Mutex
	texts  []string
	asked  int
	answer func(ctx context.Context, in proto.Embed) (*proto.Embeddings, error) // nil result: the usual one
}

func newEmbedder(t *testing.T) *embedder {
	t.Helper()
	e := &embedder{t: t}
	s := rpc.NewServer("rtr", slog.New(slog.DiscardHandler))
	rpc.Handle(s, proto.RtrEmbed, e.embed)
	e.path, _ = rpctest.Serve(t, s, "")
	return e
}

func (e *embedder) embed(ctx context.Context, in proto.Embed) (proto.Embeddings, error) {
	e.mu.Lock()
	e.texts, e.asked = append(e.texts, in.Texts...), e.asked+1
	answer := e.answer
	e.mu.Unlock()
	if in.Provider+"/"+in.Model != embedModel || len(in.Texts) > 64 || len(in.Texts) == 0 {
		e.t.Errorf("the request %+v", in)
	}
	if answer != nil {
		switch a, err := answer(ctx, in); {
		case err != nil:
			return proto.Embeddings{}, err
		case a != nil:
			return *a, nil
		}
	}
	return embeddingsOf(in, fakellm.Vector), nil
}

// embeddingsOf is rtr's answer with vectors scaled to the length 1.
func embeddingsOf(in proto.Embed, vector func(string) []float32) proto.Embeddings {
	rep := proto.Embeddings{Provider: in.Provider, Model: in.Model, Usage: &proto.Usage{}}
	for _, text := range in.Texts {
		v, sum := vector(text), 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		var raw []byte
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(float64(x)/math.Sqrt(sum))))
		}
		rep.Dimensions, rep.Vectors = len(v), append(rep.Vectors, base64.StdEncoding.EncodeToString(raw))
		rep.Usage.InputTokens += int64(len(strings.Fields(text)))
	}
	return rep
}

func (e *embedder) set(answer func(context.Context, proto.Embed) (*proto.Embeddings, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *embedder) fail(err error) {
	e.set(func(context.Context, proto.Embed) (*proto.Embeddings, error) { return nil, err })
}

func (e *embedder) sent() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.texts)
}

// startEmbedding serves memories with vectors.
func startEmbedding(t *testing.T, data string, opened func(*Service)) (*server, *embedder) {
	t.Helper()
	e := newEmbedder(t)
	return startWith(t, data, embedModel, e.path, func(s *Service) {
		s.vectors.limit = zinotest.Timeout // slow hosts
		if opened != nil {
			opened(s)
		}
	}), e
}

func (m *server) cached(n int) {
	m.t.Helper()
	zinotest.Eventually(m.t, fmt.Sprintf("%d vectors are in the cache", n), func() bool {
		return m.s.vectors.cache.Len() == n && !m.s.vectors.working()
	})
}

// find searches, and returns "id:score:lexical:vector" of each result, and the notice.
func (m *server) find(query, fields string) (results, notice string) {
	m.t.Helper()
	var rep struct {
		Type    string
		Results []struct {
			ID              int
			Score           float64
			Lexical, Vector *float64
		}
		Notice string
	}
	reply := m.ask(`{"type":"search_hard","query":` + quoted(query) + fields + `}`)
	zinotest.Must(m.t, json.Unmarshal([]byte(reply), &rep))
	if rep.Type != "hard_memories" {
		m.t.Errorf("got %s", reply)
	}
	part := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return fmt.Sprint(*x)
	}
	var list []string
	for _, r := range rep.Results {
		list = append(list, fmt.Sprintf("%d:%v:%s:%s", r.ID, r.Score, part(r.Lexical), part(r.Vector)))
	}
	return strings.Join(list, " "), rep.Notice
}

func (m *server) embedHard(fields string) proto.EmbeddedHard {
	m.t.Helper()
	var rep proto.EmbeddedHard
	reply := m.ask(`{"type":"embed_hard"` + fields + `}`)
	if !strings.HasPrefix(reply, `{"type":"embedded_hard"`) {
		m.t.Fatalf("got %s", reply)
	}
	zinotest.Must(m.t, json.Unmarshal([]byte(reply), &rep))
	return rep
}

// TestEmbedOff: without a model rtr is not asked, and answers are the same bytes as
// those of a service with a model that is asked for words alone.
func TestEmbedOff(t *testing.T) {
	on, e := startEmbedding(t, "", nil)
	off := startWith(t, "", "", e.path, nil)
	texts := []string{"the carriage waits", "tea is at five", "a cart of tea"}
	for i, text := range texts {
		on.want(keep("", msg(text)), stored(i))
	}
	on.cached(3)
	asked := len(e.sent())
	for i, text := range texts {
		off.want(keep("", msg(text)), stored(i))
	}
	for _, request := range []string{`"query":"tea"`, `"query":"tea carton","top_k":5,"explain":true,"min_score":0.1`, `"query":""`, `"query":"x","min_score":7`} {
		reply := off.ask(`{"type":"search_hard",` + request + `}`)
		on.want(`{"type":"search_hard",`+request+`,"embed":false}`, reply)
		off.want(`{"type":"search_hard",`+request+`,"embed":true}`, reply)
	}
	off.wantError(`{"type":"embed_hard"}`, "unavailable", `embeddings are switched off: name a model in [mem] embed, such as "ollama/nomic-embed-text"`)
	off.want(`{"type":"delete_hard","id":0}`, ok)
	if names := zinotest.Names(t, off.dir); strings.Contains(names, vectorsDir) {
		t.Errorf("files: %s", names)
	}
	zinotest.Equal(t, "texts sent", len(e.sent()), asked)
}

// TestEmbedSearches checks the fused score, its parts, filters and limits.
func TestEmbedSearches(t *testing.T) {
	m, e := startEmbedding(t, "", nil)
	for i, text := range []string{"the carriage waits", "tea is at five", "a kettle for tea", "the gate is open"} {
		m.want(keep(fmt.Sprint("t", i%2), msg(text)), stored(i))
	}
	m.cached(4)
	zinotest.Equal(t, "memories sent", strings.Join(slices.Sorted(slices.Values(e.sent())), "|"), "a kettle for tea t0|tea is at five t1|the carriage waits t0|the gate is open t1")
	// No memory has the word: the vector alone finds "carriage".
	got, notice := m.find("cargo", `,"top_k":1`)
	if !strings.HasPrefix(got, "0:0.5:-:0.") || notice != "" {
		t.Errorf("got %s, %s", got, notice)
	}
	first, _ := m.find("kettle", `,"top_k":1`)
	if !strings.HasPrefix(first, "2:1:0.") {
		t.Errorf("the first of both: %s", first)
	}
	for fields, want := range map[string]int{`,"top_k":9`: 4, ``: 3, `,"top_k":0`: 0, `,"tag":"t1","top_k":9`: 2, `,"top_k":9,"min_score":0.6`: 1, `,"top_k":9,"until":"2020-01-01"`: 0} {
		if got, _ := m.find("kettle", fields); len(strings.Fields(got)) != want {
			t.Errorf("%s: got %s, want %d", fields, got, want)
		}
	}
	explained := m.ask(`{"type":"search_hard","query":"kettle","top_k":1,"explain":true}`)
	var rep proto.HardMemories
	zinotest.Must(t, json.Unmarshal([]byte(explained), &rep))
	if r := rep.Results[0]; len(r.Words) != 1 || r.Words[0].Share != *r.Lexical {
		t.Errorf("explain: %s", explained)
	}
	asked := len(e.sent())
	for _, query := range []string{"", "  ", "?!", "kettle", "cargo"} { // without words, or cached
		m.find(query, "")
	}
	zinotest.Equal(t, "queries sent", len(e.sent()), asked)
	for i := range queriesMax {
		m.find(fmt.Sprint("query", i), "")
	}
	zinotest.Equal(t, "cached queries", len(m.s.vectors.queries), queriesMax)
	m.find("kettle", "")
	zinotest.Equal(t, "queries sent", len(e.sent()), asked+queriesMax+1)
}

// TestEmbedUnavailable: without a vector of the query the words decide, and a notice
// says why. Memories are stored all the same, and get their vectors later.
func TestEmbedUnavailable(t *testing.T) {
	m, e := startEmbedding(t, "", nil)
	_, notice := m.find("tea", "")
	zinotest.Equal(t, "notice", notice, "embeddings unavailable: no memory has a vector yet: run zino memory embed")
	m.want(keep("", msg("tea is at five")), stored(0))
	m.cached(1)
	plain, _ := m.find("tea", `,"embed":false`)
	for _, tt := range []struct {
		answer func(context.Context, proto.Embed) (*proto.Embeddings, error)
		limit  time.Duration
		want   string
	}{
		{func(context.Context, proto.Embed) (*proto.Embeddings, error) {
			return nil, proto.Errorf(proto.CodeBudget, "[budget] tokens_per_day = 1 is reached")
		}, 0, "[budget] tokens_per_day = 1 is reached"},
		{func(ctx context.Context, _ proto.Embed) (*proto.Embeddings, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, time.Millisecond, "the model took too long"},
		{func(_ context.Context, in proto.Embed) (*proto.Embeddings, error) {
			rep := embeddingsOf(in, func(string) []float32 { return []float32{1, 2} })
			return &rep, nil
		}, 0, "the vectors in the cache have 64 dimensions, this one has 2"},
		{func(_ context.Context, in proto.Embed) (*proto.Embeddings, error) {
			rep := embeddingsOf(in, fakellm.Vector)
			rep.Model = "other"
			return &rep, nil
		}, 0, "rtr answered with 1 embeddings of ollama/other for 1 texts of " + embedModel},
		{func(_ context.Context, in proto.Embed) (*proto.Embeddings, error) {
			rep := embeddingsOf(in, fakellm.Vector)
			rep.Dimensions--
			return &rep, nil
		}, 0, "rtr answered with an embedding that is not one of 63 dimensions"},
	} {
		e.set(tt.answer)
		m.s.vectors.limit = zinotest.Timeout
		if tt.limit > 0 {
			m.s.vectors.limit = tt.limit
		}
		m.s.vectors.mu.Lock()
		clear(m.s.vectors.queries)
		m.s.vectors.asked = nil
		m.s.vectors.mu.Unlock()
		got, notice := m.find("tea", "")
		if got != plain || notice != "embeddings unavailable: "+tt.want {
			t.Errorf("got %s, %q; want %s, %q", got, notice, plain, tt.want)
		}
	}
	e.fail(proto.Errorf(proto.CodeUnavailable, "ollama is down"))
	m.want(keep("", msg("the gate is open")), stored(1))
	zinotest.Eventually(t, "the problem is reported", func() bool {
		return slices.Contains(m.problems(), "new memories have no vectors yet: ollama is down")
	})
	e.set(nil)
	m.want(keep("", msg("the cat is out")), stored(2))
	m.cached(3)
	zinotest.Equal(t, "problems", len(m.problems()), 0)
}

// TestStoreDoesNotWaitForVectors: stores are answered while the model does not answer,
// and Close does not wait for it.
func TestStoreDoesNotWaitForVectors(t *testing.T) {
	m, e := startEmbedding(t, "", nil)
	begun := make(chan struct{}, 8)
	e.set(func(ctx context.Context, _ proto.Embed) (*proto.Embeddings, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	m.want(keep("", msg("first")), stored(0))
	zinotest.Receive(t, "the request", begun)
	for i := range 20 {
		m.want(keep("", msg(fmt.Sprint("number ", i))), stored(i+1))
	}
	m.want(`{"type":"delete_hard","id":3}`, ok)
}

// TestWaitingMemoriesAreBounded: a burst of new memories does not wait in memory.
func TestWaitingMemoriesAreBounded(t *testing.T) {
	m, _ := startEmbedding(t, "", nil)
	v := m.s.vectors
	zinotest.Must(t, acquire(t.Context(), v.filling))
	v.stored(0, 10)
	zinotest.Eventually(t, "the background has begun", func() bool { v.mu.Lock(); defer v.mu.Unlock(); return v.waiting == nil })
	for i := range 100_000 {
		v.stored(i, 1<<20)
	}
	v.mu.Lock()
	if v.tokens > maxWaiting || len(v.waiting) > maxWaiting/(embedCharacters/4) || len(v.waiting) == 0 {
		t.Errorf("%d tokens of %d memories wait", v.tokens, len(v.waiting))
	}
	v.mu.Unlock()
	v.filling <- struct{}{}
}

// stocked stores n memories of about ten tokens behind the service's back, as an earlier
// version did.
func stocked(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var lines []string
	for i := range n {
		lines = append(lines, `{"messages":[`+msg(fmt.Sprintf("memory number %04d of the store", i))+`],"tag":""}`)
	}
	zinotest.Must(t, os.WriteFile(filepath.Join(dir, hardFile), []byte("[\n"+strings.Join(lines, ",\n")+"\n]"), 0o600))
	return dir
}

// TestEmbedHard fills the cache: a dry run sends nothing, and max_tokens ends a run.
func TestEmbedHard(t *testing.T) {
	m, e := startEmbedding(t, stocked(t, 150), nil)
	dry := m.embedHard(`,"dry_run":true`)
	if dry != (proto.EmbeddedHard{Provider: "ollama", Model: "nomic-embed-text", Memories: 150, Missing: 150, Tokens: 150 * 9}) {
		t.Errorf("dry run: %+v", dry)
	}
	zinotest.Equal(t, "texts sent", len(e.sent()), 0)
	part := m.embedHard(`,"max_tokens":500`)
	if part.Embedded == 0 || part.Embedded+part.Missing != 150 || part.Tokens > 500 || part.Tokens != 6*part.Embedded || !part.Exhausted {
		t.Errorf("a part: %+v", part)
	}
	if newest := e.sent()[0]; newest != "memory number 0149 of the store " {
		t.Errorf("the first is %q", newest)
	}
	rest := m.embedHard("")
	if rest.Embedded != part.Missing || rest.Missing != 0 || rest.Exhausted {
		t.Errorf("the rest: %+v", rest)
	}
	if again := m.embedHard(""); again.Embedded != 0 || again.Missing != 0 || again.Memories != 150 {
		t.Errorf("again: %+v", again)
	}
	zinotest.Equal(t, "texts sent", len(e.sent()), 150)
	m.wantError(`{"type":"embed_hard","max_tokens":-1}`, "invalid", "max_tokens")
	// A new process has the vectors.
	again, e := startEmbedding(t, m.dir, nil)
	if got, notice := again.find("0042", `,"top_k":1`); !strings.HasPrefix(got, "42:0.9") || notice != "" {
		t.Errorf("after a restart: %s, %s", got, notice)
	}
	zinotest.Equal(t, "texts sent", strings.Join(e.sent(), "|"), "0042")
}

// TestEmbedHardStops: what came before an error stays, and nothing wrong is stored.
func TestEmbedHardStops(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(in proto.Embed) (*proto.Embeddings, error)
		code   string
		want   string
	}{
		"budget": {func(proto.Embed) (*proto.Embeddings, error) {
			return nil, proto.Errorf(proto.CodeBudget, "[budget] tokens_per_day = 9 is reached")
		}, "budget", "64 of 150 memories without a vector were embedded: [budget] tokens_per_day = 9 is reached"},
		"another number of dimensions": {func(in proto.Embed) (*proto.Embeddings, error) {
			rep := embeddingsOf(in, func(string) []float32 { return []float32{3, 4} })
			return &rep, nil
		}, "internal", "answered with vectors of 2 dimensions, and those that are stored have 64"},
		"too few": {func(in proto.Embed) (*proto.Embeddings, error) {
			rep := embeddingsOf(in, fakellm.Vector)
			rep.Vectors = rep.Vectors[1:]
			return &rep, nil
		}, "internal", "rtr answered with 63 embeddings"},
	} {
		t.Run(name, func(t *testing.T) {
			m, e := startEmbedding(t, stocked(t, 150), nil)
			e.set(func(_ context.Context, in proto.Embed) (*proto.Embeddings, error) {
				if len(e.sent()) > 64 {
					return tt.answer(in)
				}
				return nil, nil
			})
			m.wantError(`{"type":"embed_hard"}`, tt.code, tt.want)
			zinotest.Equal(t, "vectors", m.s.vectors.cache.Len(), 64)
			zinotest.Equal(t, "dimensions", m.s.vectors.cache.Dimensions(), 64)
			zinotest.Equal(t, "texts sent", len(e.sent()), 128)
			e.set(nil)
			if rest := m.embedHard(""); rest.Embedded != 86 {
				t.Errorf("afterwards: %+v", rest)
			}
		})
	}
}

// TestEmbedUnreadableCache: the error of a cache that cannot be read names the file.
func TestEmbedUnreadableCache(t *testing.T) {
	m, _ := startEmbedding(t, stocked(t, 2), nil)
	path := m.s.vectors.path()
	zinotest.Must(t, os.MkdirAll(path, 0o700)) // a directory in its place
	want := "vectors of memories: " + path + ": is a directory"
	m.wantError(`{"type":"embed_hard"}`, "internal", want)
	m.wantError(`{"type":"embed_hard","dry_run":true}`, "internal", want)
	if _, notice := m.find("tea", ""); notice != "embeddings unavailable: "+want {
		t.Errorf("got the notice %q", notice)
	}
}

// TestEmbedLongTexts: the first 8,000 characters are sent, blank texts are not, and a
// text that the model refuses stops no other.
func TestEmbedLongTexts(t *testing.T) {
	m, e := startEmbedding(t, "", nil)
	long := strings.Repeat("ä", 9000)
	e.set(func(_ context.Context, in proto.Embed) (*proto.Embeddings, error) {
		if slices.Contains(in.Texts, "refused ") {
			return nil, proto.Errorf(proto.CodeTooLarge, "the input is longer than the context")
		}
		return nil, nil
	})
	zinotest.Must(t, acquire(t.Context(), m.s.vectors.filling)) // all of them in one batch
	for i, text := range []string{"a", "refused", "  ", long, "b"} {
		m.want(keep("", msg(text)), stored(i))
	}
	m.s.vectors.filling <- struct{}{}
	m.cached(3)
	sent := e.sent()
	if !slices.Contains(sent, strings.Repeat("ä", 8000)) || slices.Contains(sent, "   ") {
		t.Errorf("sent %.300q", sent)
	}
	rep := m.embedHard("")
	if rep.Missing != 1 || rep.TooLong != 1 || rep.Memories != 4 || len(e.sent()) != len(sent) {
		t.Errorf("%+v", rep)
	}
	if got, notice := m.find("a", `,"top_k":9`); notice != "" || len(strings.Fields(got)) != 3 {
		t.Errorf("got %s, %s", got, notice)
	}
}

// TestEmbedFollowsChanges: vectors go with their texts, also those of other models.
func TestEmbedFollowsChanges(t *testing.T) {
	m, _ := startEmbedding(t, "", nil)
	file := filepath.Join(vectorsDir, embed.FileName(embedModel))
	old := filepath.Join(vectorsDir, embed.FileName("openai/old"))
	for i := range 4 {
		m.want(keep("", msg(fmt.Sprint("memory ", i))), stored(i))
	}
	m.cached(4)
	m.write(old, "vectors")
	m.want(`{"type":"update_hard","id":0,"messages":[`+msg("tea is at five")+`]}`, ok)
	m.cached(5)
	if got, _ := m.find("tea", `,"top_k":1`); !strings.HasPrefix(got, "0:1:") {
		t.Errorf("the changed memory: %s", got)
	}
	if _, err := os.Stat(m.file(old)); err == nil {
		t.Error("the vectors of another model are there")
	}
	m.want(`{"type":"store_hard","messages":[`+msg("tea is at six")+`],"replaces":0}`, `{"type":"ok","id":4}`)
	m.cached(6)
	if got, _ := m.find("tea", `,"top_k":9`); strings.Contains(got, "0:") && strings.HasPrefix(got, "0:") || !strings.HasPrefix(got, "4:1:") {
		t.Errorf("the replaced memory: %s", got)
	}
	before := len(m.read(file))
	for _, id := range []int{1, 2} {
		m.want(fmt.Sprintf(`{"type":"delete_hard","id":%d}`, id), ok)
	}
	zinotest.Eventually(t, "the file is rewritten", func() bool { return len(m.read(file)) < before })
	m.cached(2)
	off := start(t, m.dir)
	off.want(`{"type":"delete_hard","id":3}`, ok)
	if _, err := os.Stat(m.file(file)); err == nil {
		t.Error("vectors stay where nothing removes the deleted ones")
	}
}

// TestEmbedLimit: above the limit words alone decide, and a problem says so.
func TestEmbedLimit(t *testing.T) {
	m, e := startEmbedding(t, "", func(s *Service) { s.vectors.max = 2 })
	for i := range 2 {
		m.want(keep("", msg(fmt.Sprint("memory ", i))), stored(i))
	}
	m.cached(2)
	zinotest.Equal(t, "problems", len(m.problems()), 0)
	m.want(keep("", msg("memory more")), stored(2))
	const problem = "3 memories are more than the 2 that are searched by [mem] embed: they are searched by their words alone"
	zinotest.Equal(t, "problems", strings.Join(m.problems(), "|"), problem)
	sent := len(e.sent())
	_, notice := m.find("memory", "")
	zinotest.Equal(t, "notice", notice, "embeddings unavailable: "+problem)
	m.wantError(`{"type":"embed_hard"}`, "too_large", problem)
	zinotest.Equal(t, "texts sent", len(e.sent()), sent)
}

// TestEmbedIsShared: two services on one directory find the memories of each other by
// vectors, and a rewrite of one drops none of the other.
func TestEmbedIsShared(t *testing.T) {
	a, _ := startEmbedding(t, "", nil)
	b, _ := startEmbedding(t, a.dir, nil)
	a.want(keep("", msg("the carriage waits")), stored(0))
	a.cached(1)
	b.want(keep("", msg("tea is at five")), stored(1))
	b.cached(2)
	for _, m := range []*server{a, b} {
		if got, notice := m.find("cargo", `,"top_k":1`); !strings.HasPrefix(got, "0:0.5:-:") || notice != "" {
			t.Errorf("got %s, %s", got, notice)
		}
		if got, _ := m.find("teapot", `,"top_k":1`); !strings.HasPrefix(got, "1:0.5:-:") {
			t.Errorf("got %s", got)
		}
	}
	for i := range 4 {
		a.want(keep("", msg(fmt.Sprint("number ", i))), stored(i+2))
	}
	zinotest.Eventually(t, "the vectors are there", func() bool { return a.s.vectors.cache.Len() == 6 && !a.s.vectors.working() })
	for i := range 4 {
		b.want(fmt.Sprintf(`{"type":"delete_hard","id":%d}`, i+2), ok)
	}
	zinotest.Eventually(t, "the file is rewritten", func() bool {
		zinotest.Must(t, a.s.vectors.cache.Refresh())
		return a.s.vectors.cache.Len() == 2
	})
	if got, notice := a.find("cargo", `,"top_k":1`); !strings.HasPrefix(got, "0:0.5:-:") || notice != "" {
		t.Errorf("got %s, %s", got, notice)
	}
}
