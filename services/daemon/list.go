package daemon

import (
	"bytes"
	"cmp"
	"context"
	"runtime/debug"
	"slices"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

const (
	turnsLimit  = 100  // turns of a list, unless the request says more
	activityMax = 80   // characters
	manyTurns   = 1000 // of a list whose memory is returned to the system: parked ones are read from their logs
)

// turns lists the open turns of this daemon, and with all those that have ended.
func (s *Service) turns(ctx context.Context, req proto.ListTurns) (proto.TurnList, error) {
	if req.SessionID != "" {
		if err := proto.CheckSessionID(req.SessionID); err != nil {
			return proto.TurnList{}, err
		}
	}
	limit := turnsLimit
	if req.Limit > 0 {
		limit = req.Limit
	}
	list := s.listOpen(req.SessionID)
	if req.All {
		ended, err := s.listEnded(ctx, req.SessionID, limit)
		if err != nil {
			return proto.TurnList{}, err
		}
		for _, info := range ended {
			if !slices.ContainsFunc(list, func(open proto.TurnInfo) bool { return open.Turn == info.Turn }) {
				list = append(list, info)
			}
		}
	}
	inMemory := map[string]bool{}
	for _, open := range list {
		inMemory[open.Turn] = true
	}
	for _, p := range s.lot.list() {
		if req.All || req.SessionID != "" && p.session != req.SessionID || inMemory[p.turn] {
			continue
		}
		log, err := s.readLog(ctx, p.session, 0)
		if err != nil {
			return proto.TurnList{}, err
		}
		for _, t := range log.Open() {
			list = append(list, infoOf(p.session, t))
		}
		if len(list) >= limit {
			break
		}
	}
	if !req.All && req.SessionID == "" {
		list = slices.DeleteFunc(list, func(t proto.TurnInfo) bool { return t.Parent != nil })
	}
	if len(list) > manyTurns {
		time.AfterFunc(time.Second, debug.FreeOSMemory)
	}
	jobs := map[string]int{}
	if len(list) > 0 {
		for _, job := range s.runningJobs(ctx, req.SessionID) {
			jobs[job.SessionID]++
		}
	}
	for i := range list {
		list[i].Jobs = jobs[list[i].SessionID]
	}
	slices.SortStableFunc(list, func(a, b proto.TurnInfo) int { return cmp.Compare(b.Started, a.Started) })
	return proto.TurnList{Turns: append([]proto.TurnInfo{}, list[:min(len(list), limit)]...)}, nil
}

// listOpen lists the open turns of a session, or of all.
func (s *Service) listOpen(id string) (list []proto.TurnInfo) {
	s.table.mu.Lock()
	var all []*session
	followers := map[*session]int{}
	for _, sess := range s.table.sessions {
		if id == "" || sess.id == id {
			all = append(all, sess)
			followers[sess] = sess.followers
		}
	}
	s.table.mu.Unlock()
	for _, sess := range all {
		sess.mu.Lock()
		for i, t := range sess.turns {
			info := t.info()
			info.Followers, info.Queued = followers[sess], len(sess.turns)-1-i
			list = append(list, info)
		}
		sess.mu.Unlock()
	}
	return list
}

// info describes an open turn. session.mu is locked.
func (t *turn) info() proto.TurnInfo {
	info := proto.TurnInfo{SessionID: t.session.id, Turn: t.id, Started: t.created, Updated: t.created, Root: t.req.Root}
	if t.session.log != nil {
		if known := t.session.log.Turn(t.id); known != nil {
			info = infoOf(t.session.id, known)
		}
	}
	info.State, info.Reason = t.shown(), t.reason
	info.Text = title(t.message)
	if t.uid >= 0 {
		info.By = &proto.By{UID: t.uid}
	}
	info.Parent = t.parent
	if t.relay != nil {
		info.Step, info.Activity = t.relay.step, t.relay.activity()
		used := proto.Usage{InputTokens: info.InputTokens, OutputTokens: info.OutputTokens, CostUSD: info.CostUSD}
		for _, a := range t.relay.agents {
			used.Add(a.spent())
		}
		info.InputTokens, info.OutputTokens, info.CostUSD = used.InputTokens, used.OutputTokens, used.CostUSD
	}
	return info
}

// title is the start of a message on one line.
func title(message string) string {
	return text.Clip(text.OneLine(text.Head(message, 64*activityMax)), activityMax)
}

// infoOf describes a turn of a log.
func infoOf(id string, t *turnlog.Turn) proto.TurnInfo {
	return proto.TurnInfo{
		SessionID: id, Turn: t.ID, State: t.State, Reason: t.Reason, Until: t.Until, Text: t.Text, Root: t.Root,
		Started: t.Started, Updated: t.Updated, Step: t.Step, Attempts: t.Attempts,
		InputTokens: t.Usage.InputTokens, OutputTokens: t.Usage.OutputTokens, CostUSD: t.Usage.CostUSD, By: t.By, Parent: t.Parent,
	}
}

// activity is what a running turn does. session.mu is locked.
func (r *relay) activity() string {
	if len(r.running) == 0 {
		return "inference"
	}
	c := r.running[0]
	return text.Clip(text.OneLine(c.name+": "+c.subject), activityMax)
}

// subject is the part of a call's input that tells it from others: the request of a task,
// else the first member that is a text.
func subject(input proto.Raw) (first string) {
	for key, value := range wire.Members(input) {
		if first != "" && string(key) != "request" {
			continue
		}
		if value, ok := wire.Unquote(nil, bytes.TrimSpace(value)); ok {
			first = string(text.Head(value, 4*activityMax))
		}
	}
	return first
}

// listEnded lists turns from the logs, of one session or of those that changed last.
func (s *Service) listEnded(ctx context.Context, id string, limit int) (list []proto.TurnInfo, err error) {
	ids := []string{id}
	if id == "" {
		sessions, err := rpc.Call(ctx, s.mem, proto.MemListSessions, proto.ListSessions{Limit: limit, All: true})
		if err != nil {
			return nil, err
		}
		ids = nil
		for _, summary := range sessions.Sessions {
			if summary.Problem == "" {
				ids = append(ids, summary.SessionID)
			}
		}
	}
	for _, id := range ids {
		log, err := s.readLog(ctx, id, 0)
		if err != nil {
			return nil, err
		}
		for _, t := range slices.Backward(log.Turns) {
			list = append(list, infoOf(id, t))
		}
		if len(list) >= limit {
			break
		}
	}
	return list, nil
}
