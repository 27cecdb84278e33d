package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/render"
)

// fakeMem is a mem behind a daemon that passes everything on.
type fakeMem struct {
	socket string
	most   int // items of a page, larger pages are too large

	endless bool // every page says that the same one comes next

	mu        sync.Mutex
	items     []*proto.HardItem // by id, nil for an empty place
	soft      string
	histories map[string]string
	searched  []proto.SearchHard
	stored    []proto.StoreHard
	fails     error // the next store
}

func newFakeMem(t *testing.T, texts ...string) *fakeMem {
	t.Helper()
	dir := shortDir(t)
	m := &fakeMem{socket: filepath.Join(dir, "d"), most: 1000, histories: map[string]string{}}
	for _, text := range texts {
		m.add(proto.StoreHard{Messages: message.Close(message.Append(nil, "user", text))})
	}
	mem := rpc.NewServer("mem", slog.New(slog.DiscardHandler))
	m.register(mem)
	serveOn(t, mem, filepath.Join(dir, "mem"))
	daemon := rpc.NewServer("daemon", slog.New(slog.DiscardHandler))
	rpc.HandleRelay(daemon, proto.DaemonForward, func(ctx context.Context, req proto.Forward, out *rpc.Out) error {
		c := &rpc.Client{Service: req.Service, Path: filepath.Join(dir, req.Service)}
		defer c.Close()
		return rpc.Relay(ctx, c, req.Request, out)
	})
	serveOn(t, daemon, m.socket)
	return m
}

func (m *fakeMem) register(s *rpc.Server) {
	rpc.Handle(s, proto.MemStoreHard, locked(m, m.store))
	rpc.Handle(s, proto.MemSearchHard, locked(m, m.search))
	rpc.Handle(s, proto.MemListHard, locked(m, m.list))
	rpc.Handle(s, proto.MemGetHard, locked(m, m.get))
	rpc.Handle(s, proto.MemUpdateHard, locked(m, m.update))
	rpc.Handle(s, proto.MemDeleteHard, locked(m, m.remove))
	rpc.Handle(s, proto.MemListChannels, locked(m, m.channels))
	rpc.Handle(s, proto.MemGetHistory, locked(m, m.history))
	rpc.Handle(s, proto.MemClearHistory, locked(m, m.clear))
	rpc.Handle(s, proto.MemGetSoft, locked(m, func(proto.GetSoft) (proto.SoftMemory, error) { return proto.SoftMemory{Content: m.soft}, nil }))
	rpc.Handle(s, proto.MemSetSoft, locked(m, func(req proto.SetSoft) (proto.Empty, error) { m.soft = req.Content; return proto.Empty{}, nil }))
}

func locked[Req, Rep any](m *fakeMem, handle func(Req) (Rep, error)) func(context.Context, Req) (Rep, error) {
	return func(_ context.Context, req Req) (rep Rep, err error) {
		m.with(func() { rep, err = handle(req) })
		return rep, err
	}
}

// with has a test look at the fake, or change it, while it runs.
func (m *fakeMem) with(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

// add is put for tests.
func (m *fakeMem) add(req proto.StoreHard) { m.with(func() { m.put(req) }) }

// item is a copy of a memory.
func (m *fakeMem) item(id int) (item proto.HardItem) {
	m.with(func() { item = *m.items[id] })
	return item
}

// softText is the soft memory.
func (m *fakeMem) softText() (text string) {
	m.with(func() { text = m.soft })
	return text
}

// put stores a memory, once. Its time is its id.
func (m *fakeMem) put(req proto.StoreHard) int {
	for id, item := range m.items {
		if item != nil && string(item.Messages) == string(req.Messages) && item.Tag == req.Tag {
			return id
		}
	}
	id := len(m.items)
	m.items = append(m.items, &proto.HardItem{
		ID: id, Messages: slices.Clone(req.Messages), Tag: req.Tag, ChannelID: req.ChannelID, SessionID: req.SessionID,
		Created: fmt.Sprintf("2026-11-21T14:03:%02dZ", id%60),
	})
	return id
}

func (m *fakeMem) store(req proto.StoreHard) (proto.Stored, error) {
	if err := m.fails; err != nil {
		m.fails = nil
		return proto.Stored{}, err
	}
	id := m.put(req)
	req.Messages = slices.Clone(req.Messages)
	m.stored = append(m.stored, req)
	return proto.Stored{ID: id}, nil
}

func (m *fakeMem) search(req proto.SearchHard) (found proto.HardMemories, err error) {
	m.searched = append(m.searched, req)
	for id, item := range m.items {
		if item == nil || !strings.Contains(string(item.Messages), req.Query) || len(found.Results) == *req.TopK {
			continue
		}
		hit := proto.HardMemory{Messages: item.Messages, Score: 0.6547, ID: &id, Tag: item.Tag}
		if req.Explain {
			hit.Words = []proto.WordShare{{Word: req.Query, Share: 0.6}, {Word: "\u009bx", Share: 0.0547}}
		}
		found.Results = append(found.Results, hit)
	}
	return found, nil
}

func (m *fakeMem) list(req proto.ListHard) (page proto.HardList, err error) {
	if req.Limit > m.most {
		return page, proto.ErrTooLarge
	}
	if m.endless {
		return proto.HardList{Items: []proto.HardItem{*m.items[0]}, Next: new(1)}, nil
	}
	top := len(m.items)
	if req.Before != nil {
		top = min(top, *req.Before)
	}
	for id := top - 1; id >= 0; id-- {
		if len(page.Items) == req.Limit {
			page.Next = new(id + 1)
			return page, nil
		}
		if item := m.items[id]; item != nil && (req.Tag == "" || req.Tag == item.Tag) {
			page.Items = append(page.Items, *item)
		}
	}
	return page, nil
}

func (m *fakeMem) get(req proto.GetHard) (proto.HardItem, error) {
	if req.ID >= len(m.items) || m.items[req.ID] == nil {
		return proto.HardItem{}, &proto.Error{Code: proto.CodeNotFound, Message: "not there"}
	}
	return *m.items[req.ID], nil
}

func (m *fakeMem) update(req proto.UpdateHard) (proto.Empty, error) {
	if err := m.fails; err != nil {
		return proto.Empty{}, err
	}
	if _, err := m.get(proto.GetHard{ID: req.ID}); err != nil {
		return proto.Empty{}, err
	}
	if len(req.Messages) > 0 {
		m.items[req.ID].Messages = slices.Clone(req.Messages)
	}
	if req.Tag != nil {
		m.items[req.ID].Tag = *req.Tag
	}
	return proto.Empty{}, nil
}

func (m *fakeMem) remove(req proto.DeleteHard) (proto.Empty, error) {
	if _, err := m.get(proto.GetHard(req)); err != nil {
		return proto.Empty{}, err
	}
	m.items[req.ID] = nil
	return proto.Empty{}, nil
}

func (m *fakeMem) channels(proto.ListChannels) (list proto.Channels, err error) {
	for id, messages := range m.histories {
		list.Channels = append(list.Channels, proto.Channel{ChannelID: id, Bytes: int64(len(messages)), Updated: "2026-11-21T14:03:07Z"})
	}
	slices.SortFunc(list.Channels, func(x, y proto.Channel) int { return strings.Compare(x.ChannelID, y.ChannelID) })
	return list, nil
}

func (m *fakeMem) history(req proto.GetHistory) (proto.History, error) {
	var all []proto.Raw
	if text := m.histories[req.ChannelID]; text == "large" && req.Limit == 0 {
		return proto.History{}, &proto.Error{Code: proto.CodeTooLarge, Message: "too much"}
	} else if err := json.Unmarshal([]byte(text), &all); err == nil && req.Limit > 0 {
		all = all[max(0, len(all)-req.Limit):]
	}
	text, err := json.Marshal(all)
	return proto.History{Messages: text}, err
}

func (m *fakeMem) clear(req proto.ClearHistory) (proto.Empty, error) {
	delete(m.histories, req.ChannelID)
	return proto.Empty{}, nil
}

// texts lists what is remembered, "-" for an empty place.
func (m *fakeMem) texts() (list []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, item := range m.items {
		if item == nil {
			list = append(list, "-")
			continue
		}
		list = append(list, render.MessageTexts(item.Messages))
	}
	return list
}

// zino runs a command against the fake.
func (m *fakeMem) zino(t *testing.T, input string, args ...string) (status int, out, said string) {
	t.Helper()
	cmd := newWorld(t).command(append([]string{"--socket", m.socket}, args...)...)
	cmd.Env = append(cmd.Env, "TZ=UTC")
	return run(t, cmd, input)
}

// expect runs a command and compares all that it says.
func (m *fakeMem) expect(t *testing.T, input string, args []string, status int, out, said string) {
	t.Helper()
	gotStatus, gotOut, gotSaid := m.zino(t, input, args...)
	if gotStatus != status || gotOut != out || gotSaid != said {
		t.Errorf("%q: status %d, printed %q, said %q\nwant %d, %q, %q", args, gotStatus, gotOut, gotSaid, status, out, said)
	}
}

// TestMemoryMistakes: nothing is asked of anybody.
func TestMemoryMistakes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{"memory", "zino memory: name one of: add, edit, export, import, list, rm, search, show, soft; try zino memory --help"},
		{"memory serch x", `zino memory: there is no command "serch": the nearest one is "search"; try zino memory --help`},
		{"memory search", "zino memory search: name the words to look for; try zino memory search --help"},
		{"memory search x -k 0", "zino memory search: -k 0 is not the number of memories wanted, 1 or more; try zino memory search --help"},
		{"memory search x --min-score NaN", "zino memory search: --min-score NaN is not from 0 to 1; try zino memory search --help"},
		{"memory search x --min-score 1.1", "zino memory search: --min-score 1.1 is not from 0 to 1; try zino memory search --help"},
		{"memory search x --since yesterday", `zino memory search: --since "yesterday" is not a time, such as 2026-11-21 or 2026-11-21T14:03:07Z; try zino memory search --help`},
		{"memory list all", `zino memory list: it takes no arguments, but was given "all"; try zino memory list --help`},
		{"memory list -n 0", "zino memory list: -n 0 is not the number of memories wanted, 1 or more; try zino memory list --help"},
		{"memory list --until 2026-02-30", `zino memory list: --until "2026-02-30" is not a time, such as 2026-11-21 or 2026-11-21T14:03:07Z; try zino memory list --help`},
		{"memory show", "zino memory show: name one memory by its id; try zino memory show --help"},
		{"memory show x", `zino memory show: "x" is not the id of a memory, which is a number; try zino memory show --help`},
		{"memory edit 1 2", "zino memory edit: name one memory by its id; try zino memory edit --help"},
		{"memory rm", "zino memory rm: name memories by their ids; try zino memory rm --help"},
		{"memory rm 1 -- -2", `zino memory rm: "-2" is not the id of a memory, which is a number; try zino memory rm --help`},
		{"memory import", "zino memory import: name one file, or - for standard input; try zino memory import --help"},
		{"memory export a b", "zino memory export: name one file, or none for standard output; try zino memory export --help"},
		{"memory soft show", `zino memory soft: there is no command "show"; there are: set, edit; try zino memory soft --help`},
		{"memory soft set", "zino memory soft set: name the new text, or - for standard input, or '' for none; try zino memory soft set --help"},
		{"channels", "zino channels: name one of: clear, list, show; try zino channels --help"},
		{"channels show", "zino channels show: name one channel; try zino channels show --help"},
		{"channels show x -n -1", "zino channels show: -n -1 is not the number of messages wanted, 1 or more; try zino channels show --help"},
		{"channels clear a b", "zino channels clear: name one channel; try zino channels clear --help"},
		{"memory list --nope", "unknown flag: --nope; try zino --help"},
	} {
		status, out, said := run(t, newWorld(t).command(append([]string{"--socket", "none"}, strings.Fields(test.args)...)...), "")
		if status != exitUsage || out != "" || said != "Error [usage]: "+test.want+"\n" {
			t.Errorf("%s: status %d, printed %q, said %q", test.args, status, out, said)
		}
	}
}

// TestMemoryNoDaemon tells of a daemon that is not there, and of a mem.
func TestMemoryNoDaemon(t *testing.T) {
	t.Parallel()
	status, out, said := run(t, newWorld(t).command("--socket", "none", "memory", "list"), "")
	if status != 1 || out != "" || !strings.HasPrefix(said, "Error [internal]: Could not connect to daemon: ") || !strings.HasSuffix(said, "; is the daemon running? try: zino status\n") {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
	f := newFake(t, "") // it has no memories
	status, out, said = run(t, newWorld(t).command("--socket", f.socket, "memory", "rm", "1"), "")
	if status != 1 || out != "" || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "Error [internal]: ") {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
}

// TestMemoryShared says whose memory it is before something is stored in it.
func TestMemoryShared(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t), newFakeMem(t)
	if err := os.Symlink(m.socket, filepath.Join(w.runtime, "host.sock")); err != nil {
		t.Fatal(err)
	}
	for args, note := range map[string]bool{"add something": true, "list": false} {
		status, _, said := run(t, w.command(append([]string{"memory"}, strings.Fields(args)...)...), "")
		if status != 0 || strings.Contains(said, "this is the host's memory, shared by all who may use it") != note {
			t.Errorf("%s: status %d, said %q", args, status, said)
		}
	}
}
