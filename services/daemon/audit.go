package daemon

import (
	"bytes"
	"context"
	"os"

	"zino/pkg/audit"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// UseAudit has turns, approvals and what is done to sessions recorded in l. It must be called
// before the first request.
func (s *Service) UseAudit(l *audit.Log) {
	s.audit = l
	l.Record(proto.AuditStart, audit.Event{Data: lifeData{rpc.Build, s.lifetime, os.Getpid()}})
	s.auditConfig()
}

// lifeData is the data of the records start and stop.
type lifeData struct {
	Version  string `json:"version"`
	Lifetime string `json:"lifetime,omitzero"`
	PID      int    `json:"pid"`
}

// auditConfig records the files of the configuration if they have changed.
func (s *Service) auditConfig() {
	places := gate.PlacesOf(s.cfg)
	if s.cfg.Source != "" {
		s.audit.Files(proto.AuditConfig, s.cfg.Source)
	}
	s.audit.Files(proto.AuditPolicy, places.Host, places.User)
}

// auditTurns records the states of turns among events that were stored.
func (s *Service) auditTurns(session string, events proto.Raw) {
	if s.audit == nil || !bytes.Contains(events, []byte(`"type":"turn"`)) {
		return
	}
	list, err := wire.Elements(events)
	if err != nil {
		return
	}
	for _, event := range list {
		var e proto.LogTurn
		if typ, _, err := wire.Type(event); err != nil || typ != proto.TypeTurn || wire.DecodeReply(event, &e) != nil {
			continue
		}
		d := audit.Turn{State: e.State, Reason: e.Reason, Approval: e.Approval, By: -1, Attempt: e.Attempt}
		if e.By != nil {
			d.By = e.By.UID
		}
		var q logRequest
		if len(e.Request) > 0 && wire.DecodeReply(e.Request, &q) == nil {
			d.Mode, d.Root, d.Sandbox, d.Network, d.Reachable = q.Mode, q.Root, q.Sandbox, q.Network, q.Reachable
		}
		switch {
		case e.Job != "":
			d.Client = "job"
		case e.Command:
			d.Client = "command"
		case e.Attached:
			d.Client = "attached"
		}
		s.audit.Record(proto.AuditTurn, audit.Event{Session: session, Turn: e.Turn, Data: d})
	}
}

// auditPlain records a message whose turn is not stored.
func (s *Service) auditPlain(ctx context.Context, req proto.Chat, state string) {
	s.audit.Record(proto.AuditTurn, audit.Event{Session: req.SessionID, Data: audit.Turn{
		State: state, By: rpc.PeerUID(ctx), Client: "plain", Mode: req.Mode, Root: req.Root, Sandbox: req.Sandbox, Network: req.Network, Reachable: req.Reachable,
	}})
}

// auditSession records what is done to a session.
func (s *Service) auditSession(ctx context.Context, session, action string) {
	s.audit.Record(proto.AuditSession, audit.Event{Session: session, Data: sessionAction{action, rpc.PeerUID(ctx)}})
}

// sessionAction is the data of a record session.
type sessionAction struct {
	Action string `json:"action"` // rm, redact, or export
	By     int    `json:"by"`     // the uid of the caller
}

// sessionActions are methods of mem that clients reach through forward, and that are recorded.
var sessionActions = map[string]string{proto.MemRemoveSession.Type: "rm", proto.MemExportSession.Type: "export"}

// auditForward records a request to mem that concerns a session as a whole.
func (s *Service) auditForward(ctx context.Context, typ string, request proto.Raw) {
	action := sessionActions[typ]
	if action == "" || s.audit == nil {
		return
	}
	var named struct {
		SessionID string `json:"session_id,omitzero"`
		From      int64  `json:"from,omitzero"` // of a further part of an export
	}
	if wire.DecodeReply(request, &named) == nil && named.From == 0 {
		s.auditSession(ctx, named.SessionID, action)
	}
}

// auditUndo records an undo or redo that was carried out.
func (s *Service) auditUndo(ctx context.Context, req proto.Undo, reply proto.Undone, redo bool) {
	s.audit.Record(proto.AuditUndo, audit.Event{Session: req.SessionID, Turn: reply.Turn, Data: undone{redo, rpc.PeerUID(ctx), reply.Restored, reply.Removed}})
}

// undone is the data of a record undo.
type undone struct {
	Redo     bool     `json:"redo,omitzero"`
	By       int      `json:"by"` // the uid of the caller
	Restored []string `json:"restored,omitzero"`
	Removed  []string `json:"removed,omitzero"`
}

// auditApproval records a request in its new state, and the grant that an answer has made.
func (s *Service) auditApproval(a proto.Approval) {
	d := audit.Approval{ID: a.ID, State: a.State, Kind: a.Kind, Tool: a.Call.Tool, Digest: a.Digest, Answer: a.Answer, Grant: a.Grant, Requester: a.By.UID, Sandbox: a.Call.Sandbox, From: a.From, By: -1}
	if a.Answered != nil {
		d.By = a.Answered.UID
	}
	s.recordSync(proto.AuditApproval, audit.Event{Session: a.SessionID, Turn: a.Turn, Call: a.CallID, Data: d})
	if a.Grant != "" && a.State == proto.ApprovalApproved {
		s.recordSync(proto.AuditGrant, audit.Event{Session: a.SessionID, Turn: a.Turn, Call: a.CallID, Data: grantData{a.Grant, a.Answer, a.ID, d.By}})
	}
}

// auditRevoked records grants that were revoked.
func (s *Service) auditRevoked(ctx context.Context, removed []proto.Grant) {
	for _, g := range removed {
		s.recordSync(proto.AuditGrant, audit.Event{Session: g.Session, Data: grantData{g.ID, "revoked", g.Approval, rpc.PeerUID(ctx)}})
	}
}

// grantData is the data of a record grant.
type grantData struct {
	ID       string `json:"id"`
	State    string `json:"state"` // session, always, once, or revoked
	Approval string `json:"approval,omitzero"`
	By       int    `json:"by"` // who has answered or revoked it
}

// recordSync records what must be on disk before it has an effect.
func (s *Service) recordSync(kind string, e audit.Event) {
	if err := s.audit.RecordSync(s.life, kind, e); err != nil {
		s.log.Error("not recorded for the audit", "kind", kind, "error", err)
	}
}
