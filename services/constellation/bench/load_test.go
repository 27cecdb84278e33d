package bench_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/constellation/measure"
)

var loadTable = flag.Bool("load.table", false, "put the services under load and print what they did (make load)")

// loads are the sizes of a load.
type loads struct {
	clients   int // streaming at once
	length    time.Duration
	idle      int // connections
	requests  int // in a row
	followers int
}

var (
	wholeLoad = loads{200, time.Minute, 1000, 10_000, 100}
	smallLoad = loads{6, time.Second, 300, 100, 5}
)

// TestLoadAndGrowth prints the report of a load with -load.table, and that of the cost as
// work grows with -growth.table. In an ordinary test run it checks that a small load ends
// without errors, and that all costs can be measured.
func TestLoadAndGrowth(t *testing.T) {
	b := newBench(t)
	if b.smoke = !*loadTable && !*growthTable; b.smoke {
		b.bin = t.TempDir()
		programs := []string{"zino/services/cli/zino", "zino/services/repl/zino-repl"}
		for _, name := range config.Services {
			programs = append(programs, "zino/services/"+name+"/zino-"+name)
		}
		zinotest.Must(t, zinotest.Build(b.bin, programs...))
	}
	if !*growthTable {
		testLoad(t, b)
	}
	if !*loadTable {
		testGrowth(t, b)
	}
}

func testLoad(t *testing.T, b *bench) {
	size := wholeLoad
	if b.smoke {
		size = smallLoad
	}
	l, err := b.load(size)
	if err != nil {
		t.Fatalf("%v (%s)", err, b.lastWords())
	}
	if b.smoke {
		l.memory = nil // other tests run
	}
	err = l.judge()
	if !b.smoke {
		text := l.markdown(size, err)
		fmt.Print(text)
		zinotest.Must(t, measure.Section(performance, "load", text))
	}
	if err != nil {
		t.Errorf("%v (%s)", err, b.lastWords())
	}
}

// performance is the file with the results of all measurements.
const performance = "../../../docs/performance.md"

// load is what a constellation did under load.
type load struct {
	*constellation
	provider *httptest.Server
	began    time.Time
	ready    chan struct{} // closed when a gated answer may begin
	rows     []loadRow
	memory   []loadMemory
}

// loadRow is one kind of operation, with times in nanoseconds.
type loadRow struct {
	name  string
	took  time.Duration
	times []float64
	errs  []error
}

// loadMemory is the memory of a service, before and after.
type loadMemory struct {
	service       string
	before, after memoryUse
}

// memoryUse is in megabytes.
type memoryUse struct{ anonymous, heap float64 }

// How many megabytes the live heap and the anonymous memory of a service may grow.
// Objects that outlive a load lie between those that did not, and keep their pages.
const (
	flatHeap      = 1.0
	flatAnonymous = 3.0
)

// judge returns the errors, and the services whose memory is not flat.
func (l *load) judge() error {
	var list []error
	for _, r := range l.rows {
		if len(r.errs) > 0 {
			list = append(list, fmt.Errorf("%s: %d errors, the first: %w", r.name, len(r.errs), r.errs[0]))
		} else if len(r.times) == 0 {
			list = append(list, fmt.Errorf("%s: nothing was done", r.name))
		}
	}
	for _, m := range l.memory {
		if m.after.heap-m.before.heap > flatHeap {
			list = append(list, fmt.Errorf("the heap of %s grew from %.1f to %.1f MB", m.service, m.before.heap, m.after.heap))
		}
		if m.after.anonymous-m.before.anonymous > flatAnonymous {
			list = append(list, fmt.Errorf("the anonymous memory of %s grew from %.1f to %.1f MB", m.service, m.before.anonymous, m.after.anonymous))
		}
	}
	return errors.Join(list...)
}

func TestLoadVerdicts(t *testing.T) {
	done := loadRow{name: "pings", times: []float64{1}}
	failed := loadRow{name: "streams", times: []float64{1}, errs: []error{io.ErrUnexpectedEOF, io.EOF}}
	for _, c := range []struct {
		l    load
		want string
	}{
		{load{rows: []loadRow{done}, memory: []loadMemory{{"mem", memoryUse{5, 1}, memoryUse{8, 2}}}}, ""},
		{load{rows: []loadRow{done}, memory: []loadMemory{{"mem", memoryUse{9, 3}, memoryUse{5, 1}}}}, ""},
		{load{rows: []loadRow{done}, memory: []loadMemory{{"mem", memoryUse{5, 1}, memoryUse{5, 2.5}}}}, "the heap of mem grew from 1.0 to 2.5 MB"},
		{load{rows: []loadRow{done}, memory: []loadMemory{{"mem", memoryUse{5, 1}, memoryUse{8.5, 1}}}}, "the anonymous memory of mem grew from 5.0 to 8.5 MB"},
		{load{rows: []loadRow{done, failed}}, "streams: 2 errors, the first: unexpected EOF"},
		{load{rows: []loadRow{{name: "pings"}}}, "pings: nothing was done"},
	} {
		if got := c.l.judge(); fmt.Sprint(cmp.Or(got, errors.New(""))) != c.want {
			t.Errorf("%v, want %q", got, c.want)
		}
	}
	text := (&load{rows: []loadRow{done, failed}, memory: []loadMemory{{"mem", memoryUse{5, 1}, memoryUse{6, 2}}}}).markdown(smallLoad, io.EOF)
	zinotest.Contains(t, "report", text, "| streams | 1 |", "| 2 |\n", "| mem | 5.0 MB | 6.0 MB | 1.0 MB | 2.0 MB |", "Verdict: EOF")
}

func (l *load) markdown(size loads, verdict error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Load\n\n%s\n\n", measure.Run())
	b.WriteString("| load | done | a second | p50 | p99 | errors |\n|---|---|---|---|---|---|\n")
	for _, r := range l.rows {
		fmt.Fprintf(&b, "| %s | %d | %.0f | %s | %s | %d |\n", r.name, len(r.times), float64(len(r.times))/max(r.took.Seconds(), 1e-9),
			nanoseconds.text(measure.Percentile(r.times, 50)), nanoseconds.text(measure.Percentile(r.times, 99)), len(r.errs))
	}
	b.WriteString("\n| memory | anonymous, before | after | live heap, before | after |\n|---|---|---|---|---|\n")
	for _, m := range l.memory {
		fmt.Fprintf(&b, "| %s | %.1f MB | %.1f MB | %.1f MB | %.1f MB |\n", m.service, m.before.anonymous, m.after.anonymous, m.before.heap, m.after.heap)
	}
	fmt.Fprintf(&b, "\nVerdict: %v.\n\n", cmp.Or(verdict, errors.New("ok")))
	fmt.Fprintf(&b, `The clients, the provider and the services share the cores; times are wall time, seen by the
clients. %d clients ask again as soon as their answer has ended, each in a session of its own; an
answer is %d chunks, one every %s, that contain the time when the provider sent them. One user may
have 256 idle connections to a service: it closes the older ones, and their clients connect again.
"Before" is after half of this load. Memory is read after each service was made to return what is
free to the system, by %d MB of padded pings, as the least of five seconds. The rule: the live heap
within %.0f MB, and the anonymous memory within %.0f MB, because Go's heap cannot return a page on which
a few bytes outlived the load.
`, size.clients, chunksOfAnswer, chunkPace, settlePings*settlePing>>20, flatHeap, flatAnonymous)
	return b.String()
}

// Answers of the provider.
const (
	chunksOfAnswer = 20
	chunkPace      = 50 * time.Millisecond
	stampSize      = 20 // bytes of a chunk: the time in nanoseconds since load.began
)

// answer is a provider that sends an answer of stamped chunks. The first one of a gated
// answer waits for load.ready.
func (l *load) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		http.Error(w, "no such page", http.StatusNotFound)
		return
	}
	last := string(body[max(0, strings.LastIndex(string(body), `"user"`)):])
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if strings.Contains(last, gated) {
		select {
		case <-l.ready:
		case <-r.Context().Done():
			return
		}
	}
	ticker := time.NewTicker(chunkPace)
	defer ticker.Stop()
	for i := range chunksOfAnswer {
		if i > 0 {
			select {
			case <-ticker.C:
			case <-r.Context().Done():
				return
			}
		}
		fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"content":"%0*d "}}]}`+"\n\n", stampSize-1, time.Since(l.began))
		if err := out.Flush(); err != nil {
			return // the client is gone
		}
	}
	io.WriteString(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

const gated = "when all are here"

// stamps collects the delays of an answer's chunks.
type stamps struct {
	l      *load
	rest   []byte // of a stamp
	delays []float64
	err    error
}

// Text receives some chunks.
func (s *stamps) Text(delta []byte) error {
	now := time.Since(s.l.began)
	s.rest = append(s.rest, delta...)
	for len(s.rest) >= stampSize {
		sent, err := strconv.ParseInt(strings.TrimLeft(string(s.rest[:stampSize-1]), "0"), 10, 64)
		if err != nil {
			s.err = fmt.Errorf("a chunk without its time: %q", s.rest[:stampSize])
			return s.err
		}
		s.delays, s.rest = append(s.delays, float64(now)-float64(sent)), s.rest[stampSize:]
	}
	return nil
}

// complete returns an error unless all chunks have arrived.
func (s *stamps) complete(err error) error {
	if err == nil && (len(s.delays) != chunksOfAnswer || len(s.rest) > 0) {
		err = fmt.Errorf("%d of %d chunks", len(s.delays), chunksOfAnswer)
	}
	return err
}

// load runs the whole load on a constellation of its own.
func (b *bench) load(size loads) (*load, error) {
	l := &load{began: time.Now()}
	l.provider = httptest.NewServer(http.HandlerFunc(l.answer))
	defer l.provider.Close()
	var err error
	l.constellation, err = b.constellation(false, func(cfg *config.Config) {
		cfg.Provider, cfg.API.BaseURL, cfg.Service.Model = "openai", l.provider.URL, "fake-model"
	}, nil, config.Services...)
	defer func() { l.constellation.stop() }()
	if err != nil {
		return l, err
	}
	warm := loads{size.clients, size.length / 2, size.idle, size.requests / 2, size.followers}
	if err := l.all(warm); err != nil {
		return l, err
	}
	before, err := l.settled()
	if err != nil {
		return l, err
	}
	l.rows = nil
	if err := l.all(size); err != nil {
		return l, err
	}
	after, err := l.settled()
	for _, name := range config.Services {
		l.memory = append(l.memory, loadMemory{name, before[name], after[name]})
	}
	return l, err
}

// all runs every kind of load, one after the other.
func (l *load) all(size loads) error {
	l.stream(size)
	l.idle(size)
	if err := l.inARow(size); err != nil {
		return err
	}
	return l.follow(size)
}

// client returns a client of a service.
func (l *load) client(name string) *rpc.Client {
	return &rpc.Client{Service: name, Path: l.cfg.Socket(name)}
}

// collector joins the results of concurrent clients.
type collector struct {
	mu   sync.Mutex
	rows []loadRow
}

func (c *collector) add(row int, times []float64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows[row].times = append(c.rows[row].times, times...)
	if err != nil {
		c.rows[row].errs = append(c.rows[row].errs, err)
	}
}

// end adds the rows to the load's: of operations that took that time, or one after the
// other if it is 0.
func (l *load) end(c *collector, took time.Duration) {
	for _, r := range c.rows {
		if r.took = took; took == 0 {
			for _, t := range r.times {
				r.took += time.Duration(t)
			}
		}
		l.rows = append(l.rows, r)
	}
}

// stream lets clients stream answers.
func (l *load) stream(size loads) {
	c := &collector{rows: []loadRow{
		{name: fmt.Sprintf("%d clients streaming, the first chunk", size.clients)},
		{name: "– a chunk, from the provider to the client"},
	}}
	began := time.Now()
	var clients sync.WaitGroup
	for i := range size.clients {
		clients.Go(func() {
			client := l.client("daemon")
			defer client.Close()
			for time.Since(began) < size.length {
				asked := time.Now()
				s := &stamps{l: l}
				first := sync.OnceFunc(func() { c.add(0, []float64{float64(time.Since(asked))}, nil) })
				_, err := rpc.CallText(context.Background(), client, proto.DaemonChat, proto.Chat{Message: "Send an answer.", SessionID: fmt.Sprint("client-", i), Stream: true}, sinkFunc(func(delta []byte) {
					first()
					s.Text(delta)
				}))
				c.add(1, s.delays, s.complete(errors.Join(err, s.err)))
			}
		})
	}
	clients.Wait()
	l.end(c, time.Since(began))
}

// idle holds connections while one client pings. Then each of them is used again.
func (l *load) idle(size loads) {
	c := &collector{rows: []loadRow{
		{name: fmt.Sprintf("%d connections opened, the first ping", size.idle)},
		{name: "– pings of another client meanwhile"},
		{name: "– then a ping on each"},
	}}
	ping := func(row int, client *rpc.Client) {
		begin := time.Now()
		_, err := rpc.Call(context.Background(), client, proto.Ping, proto.PingRequest{})
		c.add(row, []float64{float64(time.Since(begin))}, err)
	}
	var clients []*rpc.Client
	for range size.idle {
		client := l.client("daemon")
		defer client.Close()
		ping(0, client)
		clients = append(clients, client)
	}
	other := l.client("daemon")
	defer other.Close()
	for range size.requests {
		ping(1, other)
	}
	for _, client := range clients {
		ping(2, client)
	}
	l.end(c, 0)
}

// inARow sends requests one after the other on one connection, and on new ones.
func (l *load) inARow(size loads) error {
	client := l.client("mem")
	defer client.Close()
	if _, err := rpc.Call(context.Background(), client, proto.MemAppendHistory, proto.AppendHistory{ChannelID: "load", Messages: conversation(2 << 10)}); err != nil {
		return err
	}
	for _, kind := range []string{"one connection", "new connections"} {
		c := &collector{rows: []loadRow{{name: fmt.Sprintf("%d requests in a row on %s", size.requests, kind)}}}
		for range size.requests {
			client := client
			if kind == "new connections" {
				client = l.client("mem")
			}
			begin := time.Now()
			_, err := rpc.Call(context.Background(), client, proto.MemGetHistory, proto.GetHistory{ChannelID: "load", Limit: 10})
			c.add(0, []float64{float64(time.Since(begin))}, err)
			if kind == "new connections" {
				client.Close()
			}
		}
		l.end(c, 0)
	}
	return nil
}

// follow has clients follow one turn, which begins when all of them do.
func (l *load) follow(size loads) error {
	l.ready = make(chan struct{})
	client := l.client("daemon")
	defer client.Close()
	began := time.Now()
	started, err := rpc.Call(context.Background(), client, proto.DaemonTurnStart, proto.TurnStart{Message: "Send an answer " + gated + ".", SessionID: "followed"})
	if err != nil {
		return err
	}
	c := &collector{rows: []loadRow{{name: fmt.Sprintf("%d followers of one turn, a chunk from the provider to each", size.followers)}}}
	var live, ended sync.WaitGroup
	live.Add(size.followers)
	for range size.followers {
		ended.Go(func() {
			s, here := &stamps{l: l}, sync.OnceFunc(live.Done)
			defer here()
			client := l.client("daemon")
			defer client.Close()
			_, err := rpc.CallEvents(context.Background(), client, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: "followed", Turn: started.Turn}, func(typ string, payload []byte) error {
				switch typ {
				case proto.TypeLive:
					here()
				case proto.TypeAssistantDelta:
					var d proto.AssistantDelta
					return errors.Join(wire.DecodeReply(payload, &d), s.Text([]byte(d.Text)))
				}
				return nil
			})
			c.add(0, s.delays, s.complete(err))
		})
	}
	live.Wait()
	close(l.ready)
	ended.Wait()
	l.end(c, time.Since(began))
	return nil
}

// A service returns free memory to the system two seconds after it has read 32 MiB of
// large frames.
const (
	settlePings = 5
	settlePing  = 8 << 20
)

// settled makes each service return its free memory and returns what it uses then, the
// least of five seconds.
func (l *load) settled() (map[string]memoryUse, error) {
	padded := fmt.Appendf(nil, `{"type":"ping","pad":"%s"}`, strings.Repeat("x", settlePing))
	for _, name := range config.Services {
		for range settlePings {
			if err := send(l.cfg.Socket(name), padded); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	least := map[string]memoryUse{}
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(200 * time.Millisecond) {
		for name, p := range l.processes {
			mb, err := measure.Anonymous(p.pid())
			if err != nil {
				return nil, err
			}
			client := l.client(name)
			st, err := rpc.Call(context.Background(), client, proto.GetStats, proto.StatsRequest{})
			client.Close()
			if err != nil {
				return nil, err
			}
			now := memoryUse{mb, float64(st.HeapBytes) / 1e6}
			if known, ok := least[name]; ok {
				now = memoryUse{min(known.anonymous, now.anonymous), min(known.heap, now.heap)}
			}
			least[name] = now
		}
	}
	return least, nil
}

// send sends one packet on a new connection and waits for an answer.
func send(path string, payload []byte) error {
	nc, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer nc.Close()
	frame, err := wire.AppendFrame(nil, payload)
	if err != nil {
		return err
	}
	if _, err := nc.Write(frame); err != nil {
		return err
	}
	answer, err := wire.NewReader(nc).Next()
	if err == nil && !strings.HasPrefix(string(answer), `{"type":"pong"`) {
		err = fmt.Errorf("%.200s", answer)
	}
	return err
}
