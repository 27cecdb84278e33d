package mem

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/config"
	"zino/pkg/durable"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/mem/embed"
	"zino/services/mem/index"
	"zino/services/mem/store"
)

const (
	vectorsDir = "embeddings"
	// maxEmbedded is the number of memories up to which vectors are used: a search
	// compares all of them.
	maxEmbedded = 50_000
	// maxWaiting limits the tokens of new memories that wait for their vectors, and
	// defaultTokens those of a run of embed_hard.
	maxWaiting    = 200_000
	defaultTokens = 200_000
	// maxGap is the number of tokens up to which older memories without a vector, such as
	// those that the end of a process cut off, get one together with the next new memory.
	maxGap = 10_000
	// Limits of a request to rtr.
	embedTexts      = 64
	embedCharacters = 8000

	queryTime  = 500 * time.Millisecond
	queriesMax = 256 // cached vectors of queries
)

// vectors finds memories by the vectors that a model gives their texts. It is nil if
// that is switched off.
type vectors struct {
	name            string // provider/model
	provider, model string
	rtr             *rpc.Client
	memories        *memories
	problems        *problems
	cache           *embed.Cache
	max             int // see maxEmbedded
	limit           time.Duration

	life context.Context // ends with close
	stop context.CancelFunc
	work sync.WaitGroup
	busy atomic.Bool   // the background is at work
	wake chan struct{} // has an element if there is work for the background

	learning chan struct{} // holds one element: its receiver may add to texts
	filling  chan struct{} // holds one element: its receiver may add vectors

	mu      sync.Mutex
	texts   map[fingerprint]learned
	queries map[string][]float32
	asked   []string           // the keys of queries, the oldest first
	tooLong map[embed.Key]bool // that the model refused
	waiting []int              // ids of new memories without a vector
	tokens  int                // of those
	deleted bool               // a vector may be dead
}

// learned describes the text of a memory. Texts do not stay in memory.
type learned struct {
	key    embed.Key
	tokens int32 // estimated; 0: the memory has no vector
}

// Embed finds memories by vectors as well, which rtr is asked for, if the configuration
// names a model. Call it before Register.
func (s *Service) Embed(rtr *rpc.Client) {
	if s.cfg.Embed == "" {
		return
	}
	v := &vectors{
		name: s.cfg.Embed, rtr: rtr, memories: s.memories.(*memories), problems: s.problems, cache: embed.New(s.root, vectorsDir, s.cfg.Embed),
		max: maxEmbedded, limit: queryTime, wake: make(chan struct{}, 1), learning: make(chan struct{}, 1), filling: make(chan struct{}, 1),
		texts: map[fingerprint]learned{}, queries: map[string][]float32{}, tooLong: map[embed.Key]bool{},
	}
	v.provider, v.model = (&config.Mem{Embed: s.cfg.Embed}).EmbedModel()
	v.life, v.stop = context.WithCancel(context.Background())
	v.learning <- struct{}{}
	v.filling <- struct{}{}
	s.vectors = v
	v.work.Go(v.follow)
}

func (v *vectors) close() error {
	v.stop()
	v.work.Wait()
	v.rtr.Close()
	return v.cache.Close()
}

// acquire receives the element of a channel that serves as a lock.
func acquire(ctx context.Context, lock chan struct{}) error {
	select {
	case <-lock:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// near is a search result with the parts of its score.
type near struct {
	store.Result
	lexical, vector *float64
}

// search ranks memories by their words and by their vectors, and merges the rankings.
// If there is no vector of the query, notice says why and the words alone decide.
func (v *vectors) search(ctx context.Context, q store.Query) (found []near, notice string, err error) {
	if q.K <= 0 || len(index.Words(q.Text)) == 0 {
		return nil, "", nil
	}
	vector, err := v.prepare(ctx, q.Text)
	if err == nil {
		err = v.cache.Compare(vector, func(of func(embed.Key) (float32, bool)) error {
			var hits []nearHit
			return v.memories.reading(func(c *catalog) { hits = v.fuse(c, q, of) }, func() error {
				found, err = readNear(hits, q.Room)
				return err
			})
		})
		if errors.Is(err, store.ErrTooLarge) {
			return nil, "", err
		}
	}
	if err == nil {
		return found, "", nil
	}
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	list, searched := v.memories.Search(ctx, q)
	found = nil
	for _, r := range list {
		found = append(found, near{Result: r})
	}
	return found, "embeddings unavailable: " + firstLine(err), searched
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// prepare returns the vector of a query, with the cache and the hashes of the texts up
// to date. It takes v.limit at most.
func (v *vectors) prepare(ctx context.Context, query string) ([]float32, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.limit, errSlow)
	defer cancel()
	if err := v.fits(ctx); err != nil {
		return nil, err
	}
	if err := v.cacheError(v.cache.Refresh()); err != nil {
		return nil, err
	}
	if v.cache.Len() == 0 {
		return nil, errors.New("no memory has a vector yet: run zino memory embed")
	}
	vector, err := v.query(ctx, query)
	if err == nil {
		err = v.learn(ctx)
	}
	if err != nil && context.Cause(ctx) == errSlow || errors.Is(err, proto.ErrTimeout) { // rtr has the same deadline
		err = errSlow
	}
	return vector, err
}

var errSlow = errors.New("the model took too long")

// fits returns an error if there are more memories than vectors are used for.
func (v *vectors) fits(ctx context.Context) error {
	n, err := v.memories.Len(ctx)
	if err == nil && n > v.max {
		err = proto.Errorf(proto.CodeTooLarge, "%d memories are more than the %d that are searched by [mem] embed: they are searched by their words alone", n, v.max)
	}
	return err
}

// query returns the vector of a query, from the last ones if it is there.
func (v *vectors) query(ctx context.Context, text string) ([]float32, error) {
	text = textToEmbed(text)
	v.mu.Lock()
	vector, known := v.queries[text]
	v.mu.Unlock()
	if known {
		return vector, nil
	}
	list, _, err := v.ask(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.queries[text] == nil {
		if len(v.asked) == queriesMax {
			delete(v.queries, v.asked[0])
			v.asked = slices.Delete(v.asked, 0, 1)
		}
		v.queries[text], v.asked = list[0], append(v.asked, text)
	}
	return list[0], nil
}

// textToEmbed returns the beginning of a text that is embedded.
func textToEmbed(text string) string {
	if len(text) <= embedCharacters {
		return text
	}
	n := 0
	for i := range text {
		if n++; n > embedCharacters {
			return text[:i]
		}
	}
	return text
}

// ask asks rtr for the vectors of texts. tokens is what they consumed, estimated if
// the provider did not report it.
func (v *vectors) ask(ctx context.Context, texts []string) (list [][]float32, tokens int, err error) {
	answer, err := rpc.Call(ctx, v.rtr, proto.RtrEmbed, proto.Embed{Texts: texts, Provider: v.provider, Model: v.model})
	if err != nil {
		return nil, 0, err
	}
	if answer.Provider != v.provider || answer.Model != v.model || len(answer.Vectors) != len(texts) || answer.Dimensions < 1 {
		return nil, 0, badAnswer("rtr answered with %d embeddings of %s/%s for %d texts of %s", len(answer.Vectors), answer.Provider, answer.Model, len(texts), v.name)
	}
	for _, text := range answer.Vectors {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != 4*answer.Dimensions {
			return nil, 0, badAnswer("rtr answered with an embedding that is not one of %d dimensions", answer.Dimensions)
		}
		vector := make([]float32, answer.Dimensions)
		for i := range vector {
			vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		list = append(list, vector)
	}
	for _, text := range texts {
		tokens += tokensOf(text)
	}
	if answer.Usage != nil {
		tokens = int(answer.Usage.InputTokens)
	}
	return list, tokens, nil
}

func badAnswer(format string, args ...any) error {
	e := proto.Errorf(proto.CodeInternal, format, args...)
	e.Kind = proto.ErrorKindParse
	return e
}

// tokensOf estimates the tokens of a text that is embedded.
func tokensOf(text string) int { return len(text)/4 + 1 }

// learn hashes the texts of memories that are not known yet: all after the start, and
// later the new ones, also those of other processes.
func (v *vectors) learn(ctx context.Context) error {
	if err := acquire(ctx, v.learning); err != nil {
		return err
	}
	defer func() { v.learning <- struct{}{} }()
	var unknown []ref
	return v.memories.reading(func(c *catalog) {
		unknown = nil
		v.mu.Lock()
		defer v.mu.Unlock()
		for id := range c.docs {
			if _, known := v.texts[c.docs[id].print]; c.docs[id].occupied && !known {
				unknown = append(unknown, c.ref(id))
			}
		}
	}, func() error {
		for _, r := range unknown {
			if err := ctx.Err(); err != nil {
				return err
			}
			text, err := r.text()
			if err != nil {
				return err
			}
			v.mu.Lock()
			v.texts[r.doc.print] = learnedOf(text)
			v.mu.Unlock()
		}
		return nil
	})
}

// text reads the text of a memory that is embedded, empty if it has no vector.
func (r ref) text() (string, error) {
	line, err := r.read()
	if err != nil {
		return "", err
	}
	e, err := parseElement(line)
	if err != nil {
		return "", errMoved
	}
	if e.replacedBy != nil || strings.TrimSpace(e.text) == "" {
		return "", nil
	}
	return textToEmbed(e.text), nil
}

func learnedOf(text string) learned {
	if text == "" {
		return learned{}
	}
	return learned{embed.KeyOf(text), int32(tokensOf(text))}
}

// nearHit is a result whose memory has not been read yet.
type nearHit struct {
	hit
	lexical, vector *float64
}

// fuse merges the first memories by words and by vectors.
func (v *vectors) fuse(c *catalog, q store.Query, of func(embed.Key) (float32, bool)) (hits []nearHit) {
	byWords := map[int]hit{}
	var lexical []int
	for _, h := range c.search(store.Query{Filter: q.Filter, Text: q.Text, K: embed.Depth, Explain: q.Explain}) {
		byWords[h.id] = h
		lexical = append(lexical, h.id)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	cosine := func(id int) (float32, bool) {
		t := v.texts[c.docs[id].print]
		if t.tokens == 0 {
			return 0, false
		}
		return of(t.key)
	}
	type scored struct {
		id     int
		cosine float32
	}
	var nearest []scored // the best so far, of equal ones the larger id first
	match := c.match(q.Filter)
	for id := len(c.docs) - 1; id >= 0; id-- {
		if !match(id) {
			continue
		}
		x, ok := cosine(id)
		if !ok || len(nearest) == embed.Depth && x <= nearest[embed.Depth-1].cosine {
			continue
		}
		at, _ := slices.BinarySearchFunc(nearest, x, func(s scored, x float32) int {
			if s.cosine >= x {
				return -1
			}
			return 1
		})
		nearest = slices.Insert(nearest[:min(len(nearest), embed.Depth-1)], at, scored{id, x})
	}
	ids := make([]int, len(nearest))
	for i, s := range nearest {
		ids[i] = s.id
	}
	for _, f := range embed.Fuse(lexical, ids) {
		h := nearHit{hit: hit{ref: c.ref(f.ID), score: math.Round(f.Score/step) / (1 / step)}}
		if h.score < q.MinScore || len(hits) == q.K {
			break
		}
		if words, ok := byWords[f.ID]; ok {
			h.lexical, h.words = &words.score, words.words
		}
		if x, ok := cosine(f.ID); ok {
			h.vector = new(math.Round(float64(x)/step) / (1 / step))
		}
		hits = append(hits, h)
	}
	return hits
}

// readNear is read for results with the parts of their scores.
func readNear(hits []nearHit, room int) (found []near, err error) {
	plain := make([]hit, len(hits))
	for i, h := range hits {
		plain[i] = h.hit
	}
	list, err := read(plain, room)
	for i, r := range list {
		found = append(found, near{r, hits[i].lexical, hits[i].vector})
	}
	return found, err
}

// stored has the background ask for the vector of a new memory. Beyond maxWaiting it
// is left to embed_hard.
func (v *vectors) stored(id, size int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	tokens := min(size, embedCharacters)/4 + 1
	if v.tokens+tokens > maxWaiting {
		return
	}
	v.tokens += tokens
	v.waiting = append(v.waiting, id)
	v.signal()
}

// removed has the background remove dead vectors.
func (v *vectors) removed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deleted = true
	v.signal()
}

// signal wakes the background. v.mu is locked.
func (v *vectors) signal() {
	select {
	case v.wake <- struct{}{}:
		v.busy.Store(true)
	default:
	}
}

// working reports whether the background has work.
func (v *vectors) working() bool { return v.busy.Load() }

// follow gives new memories their vectors, until close. After an error they wait for
// the next new one.
func (v *vectors) follow() {
	for acquire(v.life, v.wake) == nil {
		v.mu.Lock()
		ids, tokens, deleted := v.waiting, v.tokens, v.deleted
		v.waiting, v.tokens, v.deleted = nil, 0, false
		v.mu.Unlock()
		err := v.followUp(ids, deleted)
		text := ""
		if err != nil {
			v.mu.Lock()
			if v.tokens+tokens <= maxWaiting {
				v.waiting, v.tokens = append(ids, v.waiting...), v.tokens+tokens
			}
			v.deleted = v.deleted || deleted
			v.mu.Unlock()
			text = "new memories have no vectors yet: " + firstLine(err)
		}
		if v.life.Err() == nil {
			v.problems.set("embeddings", text, nil)
		}
		v.mu.Lock()
		v.busy.Store(len(v.wake) > 0)
		v.mu.Unlock()
	}
}

// followUp embeds memories, and removes dead vectors.
func (v *vectors) followUp(ids []int, deleted bool) error {
	if v.fits(v.life) != nil {
		return nil // stats report it
	}
	if len(ids) > 0 {
		wanted := map[int]bool{}
		for _, id := range ids {
			wanted[id] = true
		}
		_, gap, err := v.missing(v.life, func(int) bool { return true })
		if err == nil {
			_, err = v.fill(v.life, math.MaxInt, func(id int) bool { return wanted[id] || gap.estimate <= maxGap })
		}
		if err != nil {
			return err
		}
	}
	if !deleted {
		return nil
	}
	return v.prune(v.life, false)
}

// prune removes dead vectors if they are more than half, or with all.
func (v *vectors) prune(ctx context.Context, all bool) error {
	if err := v.cache.Refresh(); err != nil || v.cache.Dimensions() == 0 {
		return v.cacheError(err)
	}
	err := v.cache.Prune(ctx, all, func() (map[embed.Key]bool, error) {
		if err := v.learn(ctx); err != nil {
			return nil, err
		}
		live := map[embed.Key]bool{}
		texts := map[fingerprint]learned{} // without those of deleted memories
		err := v.memories.reading(func(c *catalog) {
			v.mu.Lock()
			defer v.mu.Unlock()
			for id := range c.docs {
				if t, known := v.texts[c.docs[id].print]; known && c.docs[id].occupied {
					live[t.key], texts[c.docs[id].print] = true, t
				}
			}
			v.texts = texts
		}, nil)
		return live, err
	})
	return v.cacheError(err)
}

// filled is the result of a fill.
type filled struct {
	memories  int // with a text
	missing   int // without a vector, before
	estimate  int // tokens of the missing ones
	embedded  int
	tokens    int
	tooLong   int
	exhausted bool // the tokens were used up
}

// pending is a memory without a vector.
type pending struct {
	id     int
	key    embed.Key
	tokens int
}

// missing lists the memories without a vector, the newest first, each text once.
func (v *vectors) missing(ctx context.Context, want func(id int) bool) (list []pending, f filled, err error) {
	if err := v.fits(ctx); err != nil {
		return nil, f, err
	}
	if err := errors.Join(v.cacheError(v.cache.Refresh()), v.learn(ctx)); err != nil {
		return nil, f, err
	}
	var all []pending
	err = v.memories.reading(func(c *catalog) {
		v.mu.Lock()
		defer v.mu.Unlock()
		all, f.memories = nil, 0
		for id := len(c.docs) - 1; id >= 0; id-- {
			if t := v.texts[c.docs[id].print]; c.docs[id].occupied && t.tokens > 0 {
				f.memories++
				if want(id) {
					all = append(all, pending{id, t.key, int(t.tokens)})
				}
			}
		}
	}, nil)
	seen := map[embed.Key]bool{}
	for _, p := range all {
		if !seen[p.key] && !v.cache.Has(p.key) {
			seen[p.key] = true
			list = append(list, p)
			f.estimate += p.tokens
		}
	}
	f.missing = len(list)
	return list, f, err
}

// fill asks for the vectors of memories that have none, as long as their tokens do not
// exceed a number. What was received stays, also after an error.
func (v *vectors) fill(ctx context.Context, tokens int, want func(id int) bool) (f filled, err error) {
	if err := acquire(ctx, v.filling); err != nil {
		return f, err
	}
	defer func() { v.filling <- struct{}{} }()
	list, f, err := v.missing(ctx, want)
	for err == nil && len(list) > 0 {
		n, estimate := 0, 0
		for n < min(len(list), embedTexts) && f.tokens+estimate+list[n].tokens <= tokens {
			estimate += list[n].tokens
			n++
		}
		if n == 0 {
			f.exhausted = true
			return f, nil
		}
		err = v.embed(ctx, list[:n], &f)
		list = list[n:]
	}
	return f, err
}

// embed adds the vectors of some memories to the cache. Texts that are too long for the
// model are left out, and not sent again by this process.
func (v *vectors) embed(ctx context.Context, list []pending, f *filled) error {
	var keys []embed.Key
	var texts []string
	for _, p := range list {
		text, err := v.textOf(p.id)
		if err != nil {
			return err
		}
		v.mu.Lock()
		tooLong := v.tooLong[p.key]
		v.mu.Unlock()
		switch {
		case tooLong:
			f.tooLong++
		case text != "" && embed.KeyOf(text) == p.key: // it was not changed meanwhile
			keys, texts = append(keys, p.key), append(texts, text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	vectors, tokens, err := v.ask(ctx, texts)
	if e, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeTooLarge {
		if len(list) > 1 {
			for i := range list {
				if err := v.embed(ctx, list[i:i+1], f); err != nil {
					return err
				}
			}
			return nil
		}
		v.mu.Lock()
		v.tooLong[keys[0]] = true
		v.mu.Unlock()
		f.tooLong++
		return nil
	}
	if err != nil {
		return err
	}
	f.tokens += tokens
	err = v.cache.Add(ctx, keys, vectors)
	if e, ok := errors.AsType[*embed.DimensionError](err); ok {
		return badAnswer("%s answered with vectors of %d dimensions, and those that are stored have %d: the model was replaced by another one of this name. Remove %s and run zino memory embed, or install the earlier model",
			v.name, e.Got, e.Have, v.path())
	}
	if err != nil {
		return v.cacheError(err)
	}
	f.embedded += len(keys)
	return nil
}

// cacheError adds the file name to an error of the cache.
func (v *vectors) cacheError(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); !ok {
		return err
	}
	return fileError("vectors of memories", v.path(), err)
}

// path is the path of the cache.
func (v *vectors) path() string { return v.memories.root.Name() + "/" + v.cache.Name() }

// textOf reads the text of a memory, empty if it is gone.
func (v *vectors) textOf(id int) (text string, err error) {
	var r ref
	there := false
	err = v.memories.reading(func(c *catalog) {
		if there = c.has(id); there {
			r = c.ref(id)
		}
	}, func() (err error) {
		text = ""
		if there {
			text, err = r.text()
		}
		return err
	})
	return text, err
}

func (s *Service) embedHard(ctx context.Context, req proto.EmbedHard) (proto.EmbeddedHard, error) {
	v := s.vectors
	switch {
	case v == nil:
		return proto.EmbeddedHard{}, proto.Errorf(proto.CodeUnavailable, `embeddings are switched off: name a model in [mem] embed, such as "ollama/nomic-embed-text"`)
	case req.MaxTokens < 0:
		return proto.EmbeddedHard{}, invalid(errors.New("max_tokens must be 0 or more"))
	}
	all := func(int) bool { return true }
	var f filled
	var err error
	if req.DryRun {
		_, f, err = v.missing(ctx, all)
	} else {
		f, err = v.fill(ctx, cmp.Or(req.MaxTokens, defaultTokens), all)
		if err == nil {
			err = v.prune(ctx, false)
		}
	}
	if e, ok := errors.AsType[*proto.Error](err); ok && !req.DryRun && f.missing > 0 {
		e := *e
		e.Message = fmt.Sprintf("%d of %d memories without a vector were embedded: %s", f.embedded, f.missing, e.Message)
		err = &e
	}
	reply := proto.EmbeddedHard{
		Provider: v.provider, Model: v.model, Memories: f.memories, Missing: f.missing - f.embedded, Embedded: f.embedded, TooLong: f.tooLong, Tokens: f.tokens, Exhausted: f.exhausted,
	}
	if req.DryRun {
		reply.Tokens = f.estimate
	}
	return reply, err
}

// forgetVectors is called after a text was deleted or changed. It removes the caches of
// models that are not configured, since no rewrite would remove the text from them.
func (s *Service) forgetVectors() {
	if s.vectors != nil {
		s.vectors.removed()
	}
	dir, err := s.root.OpenRoot(vectorsDir)
	if err != nil {
		return // usually it does not exist
	}
	defer dir.Close()
	list, err := dir.Open(".")
	if err != nil {
		return
	}
	defer list.Close()
	names, _ := list.Readdirnames(-1)
	for _, name := range names {
		if strings.HasSuffix(name, ".vec") && (s.vectors == nil || name != embed.FileName(s.vectors.name)) {
			if err := dir.Remove(name); err != nil {
				s.problems.log.Warn("cannot remove vectors of another model", "file", vectorsDir+"/"+name, "error", err)
			}
		}
	}
	_ = durable.SyncDir(dir)
}
