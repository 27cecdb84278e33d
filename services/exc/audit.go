package exc

import (
	"errors"
	"path/filepath"
	"time"

	"zino/pkg/audit"
	"zino/pkg/gate"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/exc/files"
	"zino/services/exc/jobs"
	"zino/services/exc/undo"
)

// UseAudit has calls recorded in l, and the files of the policy at places.
func (s *Service) UseAudit(l *audit.Log, places gate.Places) {
	s.audit, s.policyFiles = l, []string{places.Host, places.User}
	l.Files(proto.AuditPolicy, s.policyFiles...)
}

// noted is what the audit records of a call.
type noted struct {
	input  []byte        // masked
	digest string        // of the input
	data   audit.Call    // what is known of the result
	files  []undo.Change // that the call has made
}

// note keeps the input of a call for the audit. Contents of files are not part of it.
func (s *Service) note(c *turnCall, input []byte) {
	if s.audit == nil {
		return
	}
	c.noted.digest = audit.Digest(input)
	switch c.tool {
	case files.Write, files.Edit:
		path, _ := files.PathOf(input)
		input, _ = wire.AppendObject(nil, "", struct {
			Path  string `json:"path"`
			Bytes int    `json:"input_bytes"`
		}{path, len(input)})
	}
	const most = 256 << 10 // what lies behind is not recorded, but a secret may begin before it
	masked := input[:min(len(input), most)]
	if len(input) <= most && wire.Valid(input) {
		masked, _ = c.mask.JSON(input)
	} else {
		masked, _ = c.mask.Text(masked)
	}
	c.noted.input = []byte(audit.Head(masked))
}

// ended keeps the result of a call for the audit.
func (c *turnCall) ended(confinement *proto.Confinement, exit *int, err error) {
	d := &c.noted.data
	d.Confinement, d.Exit, d.OK = confinement, exit, err == nil
	if e, ok := errors.AsType[*files.Error](asResult(err)); ok {
		d.Code = e.Code
		if e.Code == files.Denied {
			d.Reason = maskText(c.mask, e.Message)
		}
	} else if e, ok := errors.AsType[*proto.Error](err); ok {
		d.Code = string(e.Code)
		if e.Code == proto.CodeDenied {
			d.Reason = maskText(c.mask, e.Message)
		}
	}
}

// refuse records a call that is refused before it is looked at, with the error that it returns.
func (s *Service) refuse(c *turnCall, err error) error {
	c.ended(nil, nil, err)
	s.recordCall(c, time.Now())
	return err
}

// exitOf returns the exit status of a command, nil if it still runs or was not a
// command.
func exitOf(r reply) *int {
	if d, ok := r.Data.(bashData); ok && !d.Running {
		return &d.ExitCode
	}
	return nil
}

// changed keeps the changes of a call for the audit.
func (c *turnCall) changed(list []undo.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted.files = append(c.noted.files, list...)
}

// recordCall records a call that has ended.
func (s *Service) recordCall(c *turnCall, started time.Time) {
	if s.audit == nil || c.noted.data.Code == string(proto.CodeApproval) { // the daemon records requests
		return
	}
	s.audit.Files(proto.AuditPolicy, s.policyFiles...)
	c.mu.Lock()
	d, st, changes := c.noted.data, c.start, c.noted.files
	c.mu.Unlock()
	d.Tool, d.Input, d.DurationMS = c.tool, string(c.noted.input), time.Since(started).Milliseconds()
	t := c.ticket
	d.By, d.Mode, d.Sandbox, d.Network = t.turn.By, string(t.turn.Mode), t.level, t.network
	if g := gate.Content(t.grant); g.Digest != "" {
		d.Approval, d.Grant, d.Digest = g.Approval, g.Grant, g.Digest
	} else {
		d.Digest = c.noted.digest
	}
	kind := proto.AuditCall
	switch {
	case st == nil && d.Reason != "":
		kind = proto.AuditDenied
	case st != nil && st.plan != nil && st.plan.After != "" && d.OK:
		d.Files = []audit.File{{Path: st.plan.Path, Before: st.plan.Before, After: st.plan.After}}
	default:
		d.Files, d.MoreFiles = filesOf(changes)
	}
	if st != nil {
		d.Job = st.job
	}
	s.audit.Record(kind, audit.Event{Session: c.session, Turn: c.turn, Call: c.id, Data: d})
}

// recordLate records what a job has changed after the result of its call.
func (s *Service) recordLate(job jobs.Record, changes []undo.Change) {
	d := audit.Call{Tool: toolBash, OK: true, Job: job.ID, Sandbox: job.Sandbox}
	d.Files, d.MoreFiles = filesOf(changes)
	s.audit.Record(proto.AuditJob, audit.Event{Session: job.Session, Turn: job.Turn, Data: d})
}

// filesOf returns the files of changes, at most audit.FilesMax.
func filesOf(changes []undo.Change) (list []audit.File, more int) {
	for _, c := range changes {
		if len(list) == audit.FilesMax {
			return list, len(changes) - len(list)
		}
		f := audit.File{Path: filepath.Join(c.Root, c.Path)}
		if c.Kind != "file" {
			f.Kind = c.Kind
		}
		if c.Before != nil {
			f.Before = c.Before.SHA256
		}
		if c.After != nil {
			f.After = c.After.SHA256
		}
		list = append(list, f)
	}
	return list, 0
}

// stopped is the data of a record job of a job that is stopped.
type stopped struct {
	Job string `json:"stopped"`
	By  int    `json:"by"` // the uid of the caller
}
