package daemon

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"zino/pkg/heap"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

const (
	turnsLimit  = 100      // turns of a list, unless the request says more
	activityMax = 80       // characters
	allBytes    = 64 << 20 // of logs that are read for a list of ended turns
	manyTurns   = 1000     // of a list whose memory is returned to the system: parked ones are read from their logs
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
	list = append(list, s.listParked(ctx, req.SessionID, limit, list)...)
	if req.All {
		ended, err := s.listEnded(ctx, req.SessionID, limit)
		if err != nil {
			return proto.TurnList{}, err
		}
		open := map[string]bool{}
		for _, info := range list {
			open[info.Turn] = true
		}
		for _, info := range ended {
			if !open[info.Turn] {
				list = append(list, info)
			}
		}
	}
	if !req.All && req.SessionID == "" {
		list = slices.DeleteFunc(list, func(t proto.TurnInfo) bool { return t.Parent != nil })
	}
	if len(list) > manyTurns {
		time.AfterFunc(time.Second, heap.Release)
	}
	jobs := map[string]int{}
	if len(list) > 0 {
		for _, job := range s.runningJobs(ctx, req.SessionID) {
			if job.Background {
				jobs[job.SessionID]++
			}
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

// listParked lists parked turns that are not in memory, and what is queued behind them:
// those that were started last. Each is read from the offset where it begins.
func (s *Service) listParked(ctx context.Context, id string, limit int, inMemory []proto.TurnInfo) (list []proto.TurnInfo) {
	known := map[string]bool{}
	for _, info := range inMemory {
		known[info.SessionID] = true
	}
	all := slices.DeleteFunc(s.lot.list(), func(p parked) bool { return id != "" && p.session != id || known[p.session] })
	slices.SortFunc(all, func(a, b parked) int { return cmp.Compare(b.started, a.started) })
	for _, p := range all[:min(len(all), limit)] {
		log, err := s.readLog(ctx, p.session, p.first)
		if err != nil {
			s.log.Warn("a parked turn is listed without what its log says", "session", p.session, "turn", p.turn, "error", err)
			list = append(list, proto.TurnInfo{SessionID: p.session, Turn: p.turn, State: proto.TurnParked, Reason: p.reason})
			continue
		}
		open := log.Open()
		for i, t := range open {
			info := infoOf(p.session, t)
			info.Followers, info.Queued = s.followersOf(p.session), len(open)-1-i
			list = append(list, info)
		}
	}
	return list
}

// followersOf returns the number of followers of a session.
func (s *Service) followersOf(id string) int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if sess := s.table.sessions[id]; sess != nil {
		return sess.followers
	}
	return 0
}

// info describes an open turn. session.mu is locked.
func (t *turn) info() proto.TurnInfo {
	info := proto.TurnInfo{SessionID: t.session.id, Turn: t.id, Started: t.created, Updated: t.created, Root: t.req.Root}
	if t.session.log != nil {
		if known := t.session.log.Turn(t.id); known != nil {
			info = infoOf(t.session.id, known)
		}
	}
	info.State, info.Reason = stateOf(t.shown()), t.reason
	info.Text = cmp.Or(title(t.message), info.Text)
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
		SessionID: id, Turn: t.ID, State: stateOf(t.State), Reason: t.Reason, Until: t.Until, Text: t.Text, Root: t.Root, Parent: t.Parent,
		Started: t.Started, Updated: t.Updated, Step: t.Step, Attempts: t.Attempts, Activity: waitsFor(t),
		InputTokens: t.Usage.InputTokens, OutputTokens: t.Usage.OutputTokens, CostUSD: t.Usage.CostUSD, By: t.By,
	}
}

// stateOf is the state of a turn in a list: one that was resumed is running.
func stateOf(state string) string {
	if state == proto.TurnResumed {
		return proto.TurnRunning
	}
	return state
}

// waitsFor is the activity of a parked turn.
func waitsFor(t *turnlog.Turn) string {
	if t.State != proto.TurnParked {
		return ""
	}
	switch t.Reason {
	case proto.ParkedApproval:
		return "approval " + t.Approval
	case proto.ParkedLimit:
		return "provider limit"
	}
	return t.Reason
}

// activity is what a running turn does. session.mu is locked.
func (r *relay) activity() string {
	if r.asks != "" {
		return "approval " + r.asks
	}
	if len(r.running) == 0 {
		return "inference"
	}
	c := r.running[0]
	return text.Clip(text.OneLine(c.name+": "+c.subject), activityMax)
}

// subject is the part of a call's input that tells it from others: the request of a task,
// else the first member that is a text, with the job that it is about.
func subject(input proto.Raw) (first string) {
	job := ""
	for key, value := range wire.Members(input) {
		if first != "" && string(key) != "request" && string(key) != "job" {
			continue
		}
		value, ok := wire.Unquote(nil, bytes.TrimSpace(value))
		switch {
		case !ok:
		case string(key) == "job":
			job = " " + string(text.Head(value, activityMax))
		default:
			first = string(text.Head(value, 4*activityMax))
		}
	}
	return first + job
}

// listEnded lists turns from the logs, of one session or of those that changed last. Of
// many sessions it reads about allBytes.
func (s *Service) listEnded(ctx context.Context, id string, limit int) (list []proto.TurnInfo, err error) {
	if id != "" {
		log, err := s.readLog(ctx, id, 0)
		if err != nil {
			return nil, err
		}
		return endedOf(log), nil
	}
	sessions, err := rpc.Call(ctx, s.mem, proto.MemListSessions, proto.ListSessions{Limit: limit, All: true})
	if err != nil {
		return nil, err
	}
	read := int64(0)
	for _, summary := range sessions.Sessions {
		if len(list) >= limit || read >= s.allBytes {
			break
		}
		if summary.Problem != "" {
			continue
		}
		log, err := s.readLog(ctx, summary.SessionID, 0)
		if err != nil {
			s.log.Warn("the turns of a session are not listed", "session", summary.SessionID, "error", err)
			continue
		}
		read += log.Next
		list = append(list, endedOf(log)...)
	}
	return list, ctx.Err()
}

// endedOf describes the turns of a log, the last one first.
func endedOf(log *turnlog.Log) (list []proto.TurnInfo) {
	for _, t := range slices.Backward(log.Turns) {
		list = append(list, infoOf(log.ID, t))
	}
	return list
}
