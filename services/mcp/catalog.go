package mcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/durable"
	"zino/pkg/text"
	"zino/proto"
)

const (
	catalogFile      = "catalog.json"
	catalogMax       = 4 << 20 // bytes of the file
	toolsMax         = 2000    // of a server
	descriptionMax   = 1024
	instructionsMax  = 500
	schemaMax        = 256 << 10
	problemsMax      = 20
	legacyLife       = 7 * 24 * time.Hour
	catalogVersion   = 1
	emptySchema      = `{"type":"object"}`
	nameMax          = 256
	entriesMax       = 1000
	promptsMax       = 500
	argumentsMax     = 64
	saveDelay        = 200 * time.Millisecond
	handshakeTimeout = 5 * time.Second
)

// catalog has what is known of servers, by the hash of their definition. It is kept in a
// file, so that a server that does not run can be searched.
type catalog struct {
	path string

	mu      sync.Mutex
	entries map[string]*entry
	saving  bool
	wg      sync.WaitGroup
	err     error // of the last save
}

// entry is what is known of a server.
type entry struct {
	Used         time.Time  `json:"used"`
	Protocol     string     `json:"protocol,omitempty"`
	Legacy       time.Time  `json:"legacy,omitzero"` // when it did not answer discover
	Listed       bool       `json:"listed,omitempty"`
	Expires      time.Time  `json:"expires,omitzero"`
	Instructions string     `json:"instructions,omitempty"`
	Tools        []toolInfo `json:"tools,omitempty"`
	Prompts      []prompt   `json:"prompts,omitempty"`
	Problems     []string   `json:"problems,omitempty"`
}

// toolInfo is a tool of a server.
type toolInfo struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Input       proto.Raw `json:"input,omitempty"`
	ReadOnly    bool      `json:"read_only,omitempty"`
	Idempotent  bool      `json:"idempotent,omitempty"`
}

type prompt struct {
	Name        string                 `json:"name"`
	Description string                 `json:"description,omitempty"`
	Arguments   []proto.PromptArgument `json:"arguments,omitempty"`
}

// openCatalog reads the catalogue in dir. A damaged file counts as empty: it is learned
// anew.
func openCatalog(dir string) (*catalog, error) {
	c := &catalog{path: filepath.Join(dir, catalogFile), entries: map[string]*entry{}}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	f, err := os.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > catalogMax {
		return c, nil
	}
	var buf strings.Builder
	if _, err := f.WriteTo(&buf); err != nil {
		return nil, err
	}
	c.entries = parseCatalog([]byte(buf.String()))
	return c, nil
}

// makeDir makes a directory of mode 0700.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, durable.DirMode); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// parseCatalog reads a file of the catalogue.
func parseCatalog(data []byte) map[string]*entry {
	var file struct {
		Version int               `json:"version"`
		Servers map[string]*entry `json:"servers"`
	}
	entries := map[string]*entry{}
	if json.Unmarshal(data, &file) != nil || file.Version != catalogVersion {
		return entries
	}
	for hash, e := range file.Servers {
		if e == nil || len(hash) != 64 || strings.Trim(hash, "0123456789abcdef") != "" {
			continue
		}
		e.clean()
		entries[hash] = e
	}
	return entries
}

// clean drops what a server cannot have.
func (e *entry) clean() {
	e.Instructions = clean(e.Instructions, instructionsMax)
	e.Problems = e.Problems[:min(len(e.Problems), problemsMax)]
	seen := map[string]bool{}
	e.Tools = slices.DeleteFunc(e.Tools, func(t toolInfo) bool {
		bad := !isName(t.Name) || seen[t.Name] || len(t.Input) > 0 && !isObject(t.Input)
		seen[t.Name] = true
		return bad
	})
	e.Tools = e.Tools[:min(len(e.Tools), toolsMax)]
	for i := range e.Tools {
		t := &e.Tools[i]
		t.Description = clean(t.Description, descriptionMax)
		if len(t.Input) == 0 {
			t.Input = proto.Raw(emptySchema)
		}
	}
	e.Prompts = slices.DeleteFunc(e.Prompts, func(p prompt) bool { return !isName(p.Name) })
	e.Prompts = e.Prompts[:min(len(e.Prompts), promptsMax)]
	for i := range e.Prompts {
		e.Prompts[i].Description = clean(e.Prompts[i].Description, descriptionMax)
	}
}

// isName reports whether a tool or a prompt may have a name.
func isName(s string) bool { return s != "" && s == clean(s, nameMax) }

func isObject(raw proto.Raw) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}

// clean removes characters that hide text, and cuts it.
func clean(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if text.Hidden(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return strings.TrimSpace(text.Head(strings.TrimSpace(s), n))
}

// get returns what is known of a server; the zero value if nothing is.
func (c *catalog) get(hash string) entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[hash]; e != nil {
		return *e
	}
	return entry{}
}

// remove forgets a server.
func (c *catalog) remove(hash string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, hash)
	c.saveSoon()
}

// update changes what is known of a server, and saves it soon.
func (c *catalog) update(hash string, change func(*entry)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := entry{}
	if e := c.entries[hash]; e != nil {
		next = *e
	}
	change(&next)
	next.Used = time.Now().UTC()
	c.entries[hash] = &next
	c.saveSoon()
}

// saveSoon saves the file after a moment, in which further changes join. mu is locked.
func (c *catalog) saveSoon() {
	if !c.saving {
		c.saving = true
		c.wg.Go(func() {
			time.Sleep(saveDelay)
			c.save()
		})
	}
}

// save writes the file. The least recently used servers are dropped if it is too large.
func (c *catalog) save() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saving = false
	hashes := slices.SortedFunc(maps.Keys(c.entries), func(a, b string) int {
		return cmp.Or(c.entries[b].Used.Compare(c.entries[a].Used), strings.Compare(a, b))
	})
	data := fmt.Appendf(nil, `{"version":%d,"servers":{`, catalogVersion)
	empty := len(data)
	for i, hash := range hashes {
		one, err := json.Marshal(c.entries[hash])
		if err != nil || i >= entriesMax || len(data)+len(one)+100 > catalogMax {
			delete(c.entries, hash)
			continue
		}
		if len(data) > empty {
			data = append(data, ',')
		}
		data = append(append(append(data, '"'), hash...), `":`...)
		data = append(data, one...)
	}
	data = append(data, "}}\n"...)
	c.err = replaceFile(c.path, data)
}

// close saves what was not saved yet.
func (c *catalog) close() error {
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// replaceFile writes a file of mode 0600.
func replaceFile(path string, data []byte) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.Replace(root, filepath.Base(path), data)
}

// learn returns what a server says about its tools. Of equal names the first one counts.
func learn(list []*mcp.Tool) (tools []toolInfo, problems []string) {
	seen := map[string]bool{}
	problem := func(format string, args ...any) {
		if len(problems) < problemsMax {
			problems = append(problems, clean(fmt.Sprintf(format, args...), 300))
		}
	}
	for _, t := range list {
		switch {
		case len(tools) == toolsMax:
			problem("it has more than %d tools: the others are left out", toolsMax)
			return tools, problems
		case !isName(t.Name):
			problem("a tool has no valid name: %s", text.Quote(text.Clip(t.Name, 80)))
			continue
		case seen[t.Name]:
			problem("tool %s: defined twice, the first definition counts", t.Name)
			continue
		}
		seen[t.Name] = true
		info := toolInfo{Name: t.Name, Description: clean(t.Description, descriptionMax), Input: proto.Raw(emptySchema)}
		if t.InputSchema != nil {
			schema, err := json.Marshal(t.InputSchema)
			switch {
			case err != nil || !isObject(schema):
				problem("tool %s: its input schema is not an object: it counts as having no arguments", t.Name)
			case len(schema) > schemaMax:
				problem("tool %s: its input schema is larger than %d bytes: it is left out", t.Name, schemaMax)
				continue
			default:
				info.Input = schema
			}
		}
		if a := t.Annotations; a != nil {
			info.ReadOnly, info.Idempotent = a.ReadOnlyHint, a.IdempotentHint
		}
		tools = append(tools, info)
	}
	return tools, problems
}
