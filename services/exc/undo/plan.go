package undo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"zino/pkg/durable"
	"zino/proto"
)

// States of a plan.
const (
	planPrepare = "prepare" // temporary files are being made: nothing is changed yet
	planGo      = "go"      // the changes are being made, and are finished after a crash
	planDone    = "done"
)

// tempPrefix begins the names of temporary files beside the files of the user.
const tempPrefix = ".zino-undo-"

// plan is an undo, or a redo: an undo of an undo.
type plan struct {
	Turn  string `json:"turn"`            // whose changes it takes back, or makes again
	Redo  bool   `json:"redo,omitempty"`  //
	Whole bool   `json:"whole,omitempty"` // no paths were selected
	State string `json:"state"`
	TS    string `json:"ts"`
	Steps []step `json:"steps"`

	ID      string              `json:"id,omitempty"`      // of the request
	Refused []proto.UndoRefused `json:"refused,omitempty"` // before the first step

	n int // the number in its name
}

// step is a change of a path. Root and path are as in a Change.
type step struct {
	Root    string `json:"root,omitempty"`
	Path    string `json:"path"`
	From    *State `json:"from"`           // what the path must be; nil: it must not exist
	To      *State `json:"to"`             // nil: it is removed
	Temp    string `json:"temp,omitempty"` // the new file, below the root (or "/") like the path
	Skipped string `json:"skipped,omitempty"`
	Kept    bool   `json:"kept,omitempty"` // a directory that is not empty, which is not removed
}

func (t step) change() Change {
	return Change{Root: t.Root, Path: t.Path, Before: t.From, After: t.To}
}

// below returns the root and the path below it.
func below(rootPath, path string) (root, rel string) {
	if rootPath == "" {
		return "/", strings.TrimPrefix(path, "/")
	}
	return rootPath, path
}

// planName is the name of the file of a plan.
func planName(n int) string { return "undo-" + strconv.Itoa(n) + ".json" }

func planNumber(name string) (int, bool) {
	text, ok := strings.CutPrefix(name, "undo-")
	text, ok2 := strings.CutSuffix(text, ".json")
	n, err := strconv.Atoi(text)
	return n, ok && ok2 && err == nil && n > 0 && planName(n) == name
}

// parsePlan reads a plan.
func parsePlan(data []byte) (plan, error) {
	var p plan
	if err := json.Unmarshal(data, &p); err != nil {
		return p, err
	}
	if err := checkTurn(p.Turn); err != nil {
		return p, err
	}
	if p.State != planPrepare && p.State != planGo && p.State != planDone {
		return p, fmt.Errorf("invalid state %.80q", p.State)
	}
	for _, t := range p.Steps {
		if err := t.change().check(); err != nil {
			return p, err
		}
		if t.Temp != "" && (!filepath.IsLocal(t.Temp) || filepath.Clean(t.Temp) != t.Temp || strings.ContainsRune(t.Temp, 0) || !strings.HasPrefix(filepath.Base(t.Temp), tempPrefix)) {
			return p, fmt.Errorf("invalid temporary file %.200q", t.Temp)
		}
	}
	return p, nil
}

// save writes a plan and returns when it is on disk.
func (p *plan) save(dir *os.Root) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return durable.Replace(dir, planName(p.n), data)
}

// selection is what an undo, redo or diff is about.
type selection struct {
	turn    string
	changes []Change
	gaps    map[string]bool
	next    int // number of the next plan
}

// find selects the changes of a request.
func (s *Store) find(req proto.Undo, redo bool) (*selection, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return nil, err
	}
	if req.Turn != "" {
		if err := checkTurn(req.Turn); err != nil {
			return nil, err
		}
	}
	turns, plans, err := s.records(req.SessionID)
	if err != nil {
		return nil, err
	}
	sel := &selection{next: 1}
	takenBack := map[string]map[string]int{} // by turn and path: the plan
	whole := map[string]bool{}
	for i, p := range plans {
		sel.next = p.n + 1
		if p.State == planPrepare {
			continue
		}
		if takenBack[p.Turn] == nil {
			takenBack[p.Turn] = map[string]int{}
		}
		for _, t := range p.Steps {
			if t.Skipped != "" {
				continue
			}
			if id := t.change().id(); p.Redo {
				delete(takenBack[p.Turn], id)
			} else {
				takenBack[p.Turn][id] = i
			}
		}
		whole[p.Turn] = !p.Redo && (p.Whole || whole[p.Turn])
	}
	if redo {
		return sel, sel.findUndone(req, plans, takenBack)
	}
	for _, t := range slices.Backward(turns) {
		if req.Turn != "" && t.turn != req.Turn || req.Turn == "" && whole[t.turn] {
			continue
		}
		sel.turn = t.turn
		sel.changes, sel.gaps = net(t.changes)
		sel.changes = slices.DeleteFunc(sel.changes, func(c Change) bool { _, done := takenBack[t.turn][c.id()]; return done })
		if len(sel.changes) > 0 || req.Turn != "" {
			return sel, sel.narrow(req.Paths)
		}
	}
	if req.Turn != "" {
		return nil, proto.Errorf(proto.CodeNotFound, "no file changes of turn %s are recorded in session %s", req.Turn, req.SessionID)
	}
	return nil, proto.Errorf(proto.CodeNotFound, "no file changes to take back in session %s", req.SessionID)
}

// findUndone selects what the last undo took back that was not redone.
func (sel *selection) findUndone(req proto.Undo, plans []plan, takenBack map[string]map[string]int) error {
	for i, p := range slices.Backward(plans) {
		if p.Redo || req.Turn != "" && p.Turn != req.Turn {
			continue
		}
		var changes []Change
		for _, t := range p.Steps {
			if n, still := takenBack[p.Turn][t.change().id()]; still && n == i && t.Skipped == "" {
				changes = append(changes, t.change())
			}
		}
		if len(changes) > 0 {
			sel.turn = p.Turn
			sel.changes, sel.gaps = net(changes)
			return sel.narrow(req.Paths)
		}
	}
	if req.Turn != "" {
		return proto.Errorf(proto.CodeNotFound, "no undo of turn %s to take back in session %s", req.Turn, req.SessionID)
	}
	return proto.Errorf(proto.CodeNotFound, "no undo to take back in session %s", req.SessionID)
}

// narrow leaves the changes of paths, and of what is below them.
func (sel *selection) narrow(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	var kept []Change
	for _, path := range paths {
		clean, found := filepath.Clean(path), false
		for _, c := range sel.changes {
			name := c.Path
			if filepath.IsAbs(clean) {
				name = c.id()
			}
			if clean != "." && name != clean && !strings.HasPrefix(name, strings.TrimSuffix(clean, "/")+"/") {
				continue
			}
			found = true
			if !slices.ContainsFunc(kept, func(k Change) bool { return k.id() == c.id() }) {
				kept = append(kept, c)
			}
		}
		if !found {
			return proto.Errorf(proto.CodeNotFound, "turn %s did not change %q, or its change was taken back", sel.turn, path)
		}
	}
	for _, c := range slices.Clone(kept) { // directories that must return with them
		for dir := filepath.Dir(c.Path); c.Before != nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			for _, d := range sel.changes {
				if d.Root == c.Root && d.Path == dir && d.returnsDir() && !slices.ContainsFunc(kept, func(k Change) bool { return k.id() == d.id() }) {
					kept = append(kept, d)
				}
			}
		}
	}
	sel.changes = kept
	return nil
}

// returnsDir reports whether the undo of a change makes a directory.
func (c Change) returnsDir() bool {
	return c.Before != nil && c.Before.Kind == kindDir && (c.After == nil || c.After.Kind != kindDir)
}

// name is the path of a change for people.
func (c Change) name() string {
	if c.Kind == kindDir {
		return c.Path + "/"
	}
	return c.Path
}
