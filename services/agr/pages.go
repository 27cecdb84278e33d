package agr

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// hasPages reports whether a file REPL listens. It is looked for once a turn: it
// comes and goes while the agent runs. Where there is none that is known at once,
// without a packet.
func (s *Service) hasPages(ctx context.Context) bool {
	d := net.Dialer{Timeout: time.Second} // of a queue that is full
	nc, err := d.DialContext(ctx, "unix", s.repl.Path)
	if err != nil {
		return false
	}
	nc.Close()
	return true
}

// forPages reports whether a call is one of a tool for pages that this turn
// offers.
func (t *turn) forPages(c call) bool { return t.session.pages && toolbox.OfPages(c.name) }

// usePages carries out a call of a tool for pages.
func (t *turn) usePages(name string, fields map[string]json.RawMessage) outcome {
	if name == toolbox.PageList {
		pages, err := rpc.Call(t.ctx, t.s.repl, proto.ReplPages, proto.PagesRequest{})
		if err != nil {
			return failed(err)
		}
		return outcome{result: toolbox.Pages(pages)}
	}
	if missing, ok := lacks(fields, []string{"page", "code"}); ok {
		return refused(fmt.Sprintf("The field %q is missing.", missing))
	}
	return t.evalInPage(fields)
}

// evalInPage runs code in a page. When the turn is ended nobody waits for the
// answer any more; the page's file has it nevertheless.
func (t *turn) evalInPage(fields map[string]json.RawMessage) outcome {
	const longest = 86_400_000 // ms: a day, the most that a REPL takes
	page, err := text(fields, "page")
	code, codeErr := text(fields, "code")
	limit, limitErr := count(fields, "timeout_ms", 0, longest)
	if err := errors.Join(err, codeErr, limitErr); err != nil {
		return malformedCall(err)
	}
	if strings.TrimSpace(code) == "" {
		return refused("Empty code block.")
	}
	level := cmp.Or(t.req.Sandbox, proto.Level(t.s.sandbox))
	r, err := rpc.Call(t.ctx, t.s.repl, proto.ReplEval, proto.Eval{Page: page, Code: code, TimeoutMS: int64(limit), Sandbox: level})
	switch {
	case errors.Is(err, proto.ErrNotFound), errors.Is(err, proto.ErrInvalid):
		return refused(fmt.Sprintf("%v %s shows the pages.", err, toolbox.PageList))
	case err != nil:
		return failed(err)
	}
	return outcome{result: toolbox.Evaluated(r, t.s.outputBytes, level)}
}
