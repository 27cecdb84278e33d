package approval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pelletier/go-toml/v2"

	"zino/pkg/durable"
	"zino/pkg/gate"
	"zino/pkg/gate/propose"
	"zino/proto"
)

const (
	sessionLife = 24 * time.Hour // of a session's grant, after the last turn
	grantsMax   = 4 << 20        // bytes of the file
	lockTimeout = 5 * time.Second
)

// Grants are the grants in a file, which people may edit. It is read at each use.
type Grants struct {
	dir string
	env []string
	now func() time.Time
	log *slog.Logger

	mu     sync.Mutex
	warned string // the last problems that were logged
}

// entry is a table [[grant]] of the file.
type entry struct {
	ID       string      `toml:"id"`
	Scope    string      `toml:"scope"`
	Session  string      `toml:"session"`
	Root     string      `toml:"root"`
	Tool     string      `toml:"tool"`
	Command  string      `toml:"command,omitempty"`
	Path     string      `toml:"path,omitempty"`
	Host     string      `toml:"host,omitempty"`
	MCP      string      `toml:"mcp,omitempty"`
	Input    string      `toml:"input,omitempty"`
	Sandbox  proto.Level `toml:"sandbox"`
	Network  bool        `toml:"network"`
	UID      int         `toml:"uid"`
	Expires  time.Time   `toml:"expires"`
	Approval string      `toml:"approval,omitempty"`
	Created  time.Time   `toml:"created"`
	Uses     int         `toml:"uses,omitempty"`
	LastUse  *time.Time  `toml:"last_use,omitempty"`

	ignored bool           // there are mistakes in it
	table   map[string]any // as it stands, if it is ignored
}

// check returns why a grant holds for nothing.
func (e *entry) check() error {
	given := 0
	for _, s := range []string{e.Command, e.Path, e.Host, e.MCP, e.Input} {
		if s != "" {
			given++
		}
	}
	_, level := proto.ParseLevel(string(e.Sandbox))
	switch {
	case e.ID == "":
		return errors.New("id is missing")
	case e.Scope != proto.AnswerSession && e.Scope != proto.AnswerAlways:
		return fmt.Errorf("scope must be session or always, not %q", e.Scope)
	case (e.Scope == proto.AnswerSession) != (e.Session != ""):
		return errors.New("session must be given with the scope session, and only with it")
	case e.Tool == "":
		return errors.New("tool is missing")
	case given != 1:
		return errors.New("one of command, path, host, mcp and input must be given")
	case level != nil:
		return level
	case e.Expires.IsZero():
		return errors.New("expires is missing")
	case e.Command != "":
		return gate.CheckPattern(e.Command)
	case e.Path != "":
		return gate.CheckPathPattern(e.Path)
	}
	return nil
}

// parseGrants reads the file. Tables with mistakes are returned with the others, and
// described in problems.
func parseGrants(data []byte) (list []entry, problems []string, err error) {
	var file struct {
		Grant []map[string]any `toml:"grant"`
	}
	if err := strict(data, &file); err != nil {
		return nil, nil, err
	}
	for i, table := range file.Grant {
		b, err := toml.Marshal(table)
		var e entry
		if err == nil {
			err = strict(b, &e)
		}
		if err == nil {
			err = e.check()
		}
		if err == nil && slices.ContainsFunc(list, func(o entry) bool { return o.ID == e.ID }) {
			err = errors.New("another grant has this id")
		}
		if err != nil {
			name, ok := table["id"].(string)
			if !ok {
				name = fmt.Sprintf("number %d", i+1)
			}
			problems = append(problems, fmt.Sprintf("grant %.40s is ignored: %v", name, err))
			e = entry{ignored: true, table: table}
		}
		list = append(list, e)
	}
	return list, problems, nil
}

// strict decodes TOML; an unknown key is an error that names it.
func strict(data []byte, v any) error {
	d := toml.NewDecoder(bytes.NewReader(data))
	err := d.DisallowUnknownFields().Decode(v)
	if unknown, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(unknown.Errors) > 0 {
		return fmt.Errorf("unknown key %q", strings.Join(unknown.Errors[0].Key(), "."))
	}
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := at.Position()
		return fmt.Errorf("line %d, column %d: %s", line, column, strings.TrimPrefix(at.Error(), "toml: "))
	}
	return err
}

func format(list []entry) ([]byte, error) {
	var b bytes.Buffer
	for _, e := range list {
		var v any = map[string][]entry{"grant": {e}}
		if e.ignored {
			v = map[string][]map[string]any{"grant": {e.table}}
		}
		text, err := toml.Marshal(v)
		if err != nil {
			return nil, err
		}
		b.Write(append(text, '\n'))
	}
	return b.Bytes(), nil
}

// read reads the file. One that other users can write to holds nothing.
func (g *Grants) read() (list []entry, problems []string, err error) {
	path := filepath.Join(g.dir, grantsFile)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || uid != os.Geteuid() && uid != 0 {
		return nil, nil, fmt.Errorf("%s must be a file that only its owner, uid %d, can write to: chmod 600 it", path, os.Geteuid())
	}
	data, err := io.ReadAll(io.LimitReader(f, grantsMax+1))
	if err == nil && len(data) > grantsMax {
		err = fmt.Errorf("it is larger than %d bytes", grantsMax)
	}
	if err == nil {
		list, problems, err = parseGrants(data)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, problems, nil
}

// load is read that logs problems, once.
func (g *Grants) load() []entry {
	list, problems, err := g.read()
	if err != nil {
		problems = append(problems, err.Error())
	}
	text := strings.Join(problems, "; ")
	g.mu.Lock()
	defer g.mu.Unlock()
	if text != g.warned && text != "" {
		g.log.Warn("some grants do not hold", "error", text)
	}
	g.warned = text
	return list
}

// change replaces the file with what fn makes of its tables, if it changes them, while no
// other daemon does so. Grants that have expired are dropped.
func (g *Grants) change(fn func(list []entry) ([]entry, bool)) error {
	root, err := os.OpenRoot(g.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	lock, err := durable.AwaitLockFile(ctx, root, "."+grantsFile+".lock", func() error { return nil })
	if err != nil {
		return err
	}
	list, _, err := g.read()
	if err == nil {
		changed := false
		if list, changed = fn(list); changed {
			list = slices.DeleteFunc(list, func(e entry) bool { return !e.ignored && !g.now().Before(e.Expires) })
			var data []byte
			if data, err = format(list); err == nil {
				err = durable.Replace(root, grantsFile, data)
			}
		}
	}
	return errors.Join(err, lock.Unlock())
}

func (g *Grants) add(e entry) error {
	return g.change(func(list []entry) ([]entry, bool) { return append(list, e), true })
}

// Revoke removes the grants that match, and returns them.
func (g *Grants) Revoke(match func(proto.Grant) bool) (removed []proto.Grant, err error) {
	err = g.change(func(list []entry) ([]entry, bool) {
		removed = nil
		list = slices.DeleteFunc(list, func(e entry) bool {
			if e.ignored || !match(e.grant()) {
				return false
			}
			removed = append(removed, e.grant())
			return true
		})
		return list, len(removed) > 0
	})
	if err != nil {
		return nil, err
	}
	return removed, nil
}

// Grants returns the grants that hold, and what is wrong with others.
func (g *Grants) Grants() (list []proto.Grant, problems []string) {
	entries, problems, err := g.read()
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, e := range entries {
		if !e.ignored && g.now().Before(e.Expires) {
			list = append(list, e.grant())
		}
	}
	return list, problems
}

// Extend keeps the grants of a session, whose turn has ended, for another sessionLife.
func (g *Grants) Extend(session string) error {
	of := func(e entry) bool { return !e.ignored && e.Scope == proto.AnswerSession && e.Session == session }
	if !slices.ContainsFunc(g.load(), of) {
		return nil
	}
	return g.change(func(list []entry) ([]entry, bool) {
		changed := false
		for i := range list {
			if of(list[i]) && g.now().Before(list[i].Expires) {
				list[i].Expires, changed = g.until(sessionLife), true
			}
		}
		return list, changed
	})
}

func (g *Grants) until(d time.Duration) time.Time { return g.now().Add(d).UTC().Truncate(time.Second) }

// Use returns the grant that allows a call, and counts its use. grantable is the widest
// answer that the policy allows.
func (g *Grants) Use(c Call, grantable string) (id string, ok bool) {
	most := slices.Index(widths, grantable)
	i := slices.IndexFunc(g.load(), func(e entry) bool {
		if e.ignored || most < slices.Index(widths, e.Scope) || !e.matches(&c, g) {
			return false
		}
		id = e.ID
		return true
	})
	if i < 0 {
		return "", false
	}
	err := g.change(func(list []entry) ([]entry, bool) {
		i := slices.IndexFunc(list, func(e entry) bool { return !e.ignored && e.ID == id })
		if i < 0 {
			return list, false
		}
		now := g.until(0)
		list[i].Uses, list[i].LastUse = list[i].Uses+1, &now
		return list, true
	})
	if err != nil {
		g.log.Warn("the use of a grant is not counted", "grant", id, "error", err)
	}
	return id, true
}

// Call is a call that a grant may allow.
type Call struct {
	proto.AskedCall
	Session string
	UID     int    // of the requester
	Home    string // of the requester, without symbolic links; empty: unknown
}

// subject are the parts of an input that patterns match.
type subject struct {
	Command string `json:"command"`
	Path    string `json:"path"`
	Host    string `json:"host"`
}

func (c *Call) subject() (s subject) {
	_ = json.Unmarshal(c.Input, &s) // without these members only the exact input matches
	return s
}

// file returns the call of a file's tool for patterns of paths.
func (c *Call) file() *gate.Call {
	return &gate.Call{Tool: c.Tool, Path: c.subject().Path, Root: c.Root, Home: c.Home}
}

// mcpPrefix begins the name of a tool of an MCP server.
const mcpPrefix = "mcp:"

func isFileTool(tool string) bool { return slices.Contains([]string{"read", "write", "edit"}, tool) }

// matches reports whether a grant allows a call.
func (e *entry) matches(c *Call, g *Grants) bool {
	switch {
	case !g.now().Before(e.Expires), e.UID != c.UID, e.Sandbox != c.Sandbox, c.Network && !e.Network:
		return false
	case e.Scope == proto.AnswerSession && e.Session != c.Session:
		return false
	case e.Root != "*" && !below(c.Root, e.Root):
		return false
	case e.MCP != "":
		return c.Tool == mcpPrefix+e.MCP
	case e.Tool != c.Tool:
		return false
	case e.Command != "":
		return c.Tool == "bash" && gate.CoversCommand(e.Command, c.subject().Command, g.env)
	case e.Path != "":
		return isFileTool(c.Tool) && gate.CoversPath(e.Path, c.file())
	case e.Host != "":
		return gate.CoversHost(e.Host, c.subject().Host)
	}
	return gate.SameInput([]byte(e.Input), c.Input)
}

// below reports whether a directory is root or below it. Both are without symbolic links.
func below(dir, root string) bool {
	return dir == root || root != "" && strings.HasPrefix(dir, strings.TrimSuffix(root, "/")+"/")
}

// newGrant returns the grant that an answer makes. pattern narrows or widens what is
// proposed; it must match the call.
func (s *Store) newGrant(a *proto.Approval, pattern string, days int) (entry, error) {
	now := s.Grants.until(0)
	e := entry{
		ID: proto.NewGrantID(), Scope: a.Answer, Root: a.Call.Root, Tool: a.Call.Tool, Sandbox: a.Call.Sandbox, Network: a.Call.Network,
		UID: a.By.UID, Expires: s.Grants.until(time.Duration(days) * 24 * time.Hour), Approval: a.ID, Created: now,
	}
	if e.Scope == proto.AnswerSession {
		e.Session, e.Expires = a.SessionID, s.Grants.until(sessionLife)
	}
	c := CallOf(a.Call, a.SessionID, a.By.UID)
	subject := c.subject()
	switch {
	case a.Call.Tool == "bash":
		e.Command = cmp.Or(pattern, propose.Pattern(strings.TrimSpace(subject.Command)))
	case isFileTool(a.Call.Tool):
		if e.Path = pattern; pattern == "" || pattern == subject.Path {
			e.Path = gate.PatternOf(c.file())
		}
	case pattern != "":
		return e, proto.Errorf(proto.CodeInvalid, "calls of %s have no patterns: answer without one", a.Call.Tool)
	case strings.HasPrefix(a.Call.Tool, mcpPrefix):
		e.MCP = strings.TrimPrefix(a.Call.Tool, mcpPrefix)
	}
	if e.check() == nil && e.matches(&c, &s.Grants) {
		return e, nil
	}
	if pattern != "" && pattern != propose.Pattern(strings.TrimSpace(subject.Command)) {
		return e, proto.Errorf(proto.CodeInvalid, "the pattern %.200q does not match the call: %.200s", pattern, subject.Command+subject.Path)
	}
	e.Command, e.Path, e.MCP, e.Input = "", "", "", string(a.Call.Input)
	return e, e.check()
}

func (e *entry) grant() proto.Grant {
	g := proto.Grant{
		ID: e.ID, Scope: e.Scope, Session: e.Session, Root: e.Root, Tool: e.Tool, Command: e.Command, Path: e.Path, Host: e.Host, MCP: e.MCP, Input: e.Input,
		Sandbox: e.Sandbox, Network: e.Network, UID: e.UID, Expires: e.Expires.UTC().Format(time.RFC3339), Approval: e.Approval, Uses: e.Uses,
	}
	if !e.Created.IsZero() {
		g.Created = e.Created.UTC().Format(time.RFC3339)
	}
	if e.LastUse != nil {
		g.LastUse = e.LastUse.UTC().Format(time.RFC3339)
	}
	return g
}
