package agr

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
)

// pageBytes bounds what the model gets of a value, a log or an outline. The page's file
// has the rest.
const pageBytes = 8 << 10

func (t *turn) listPages(*call, fields) result {
	pages, err := rpc.Call(t.ctx, t.repl, proto.ReplPages, proto.PagesRequest{})
	if err != nil {
		return failed(err)
	}
	return result{data: success(pages)}
}

// evalInPage runs code in a page. If the turn is canceled meanwhile, the answer is
// only in the page's file.
func (t *turn) evalInPage(c *call, f fields) result {
	const day = 86_400_000 // ms: the most that repl accepts
	page, err := f.text("page")
	code, codeErr := f.text("code")
	limit, limitErr := f.count("timeout_ms", 0, day)
	if err := errors.Join(err, codeErr, limitErr); err != nil {
		return malformedCall(err)
	}
	if strings.TrimSpace(code) == "" {
		return refused("Empty code block.")
	}
	level := cmp.Or(t.req.Sandbox, t.sandbox)
	var r proto.Evaluated
	err = t.approved(c, func(grant string) (err error) {
		r, err = rpc.Call(t.ctx, t.repl, proto.ReplEval, proto.Eval{
			Page: page, Code: code, TimeoutMS: int64(limit), Sandbox: level, Token: t.token(), Key: t.fullKey(c), Grant: grant, Ask: c.ask(),
		})
		return err
	})
	if err != nil {
		return pageFailed(err)
	}
	return result{data: evaluated(r, min(t.outputBytes, pageBytes), level)}
}

// pageFailed reports an error of repl. The model can correct the arguments.
func pageFailed(err error) result {
	if errors.Is(err, proto.ErrNotFound) || errors.Is(err, proto.ErrInvalid) {
		return refused("%v %s shows the pages.", err, pageList)
	}
	return failed(err)
}

// readPageLog returns the last events of a page, or those that follow an earlier result.
func (t *turn) readPageLog(_ *call, f fields) result {
	page, err := f.text("page")
	after, afterErr := f.text("after")
	if err := errors.Join(err, afterErr); err != nil {
		return malformedCall(err)
	}
	// With fewer events repl answers with the next of the last one, so that the others
	// are not lost.
	for limit := 64; ; limit /= 2 {
		log, err := rpc.Call(t.ctx, t.repl, proto.ReplLog, proto.ReadPageLog{Page: page, After: after, Limit: limit})
		if err != nil {
			return pageFailed(err)
		}
		if data := logged(log); len(data) <= pageBytes || limit == 1 {
			return result{data: data}
		}
	}
}

// logged returns the envelope of events, without what they say twice.
func logged(log proto.PageLog) proto.Raw {
	type event struct {
		Source  string `json:"source"`
		TS      string `json:"ts,omitzero"`
		Place   string `json:"place,omitzero"`
		Message string `json:"message,omitzero"`
		Stack   string `json:"stack,omitzero"`
	}
	data := struct {
		Events  []event `json:"events"`
		Next    string  `json:"next"`
		LeftOut int64   `json:"left_out,omitzero"`
	}{[]event{}, log.Next, log.LeftOut}
	for _, e := range log.Events {
		if strings.HasPrefix(e.Stack, e.Message) {
			e.Message = ""
		}
		data.Events = append(data.Events, event{cmp.Or(e.Source, e.Type), e.TS, e.Place, shorten(e.Message, pageBytes/8), shorten(e.Stack, pageBytes/8)})
	}
	return success(data)
}

// outlinePage returns what a page shows.
func (t *turn) outlinePage(_ *call, f fields) result {
	page, err := f.text("page")
	selector, selectorErr := f.text("selector")
	depth, depthErr := f.count("depth", 0, 100)
	if err := errors.Join(err, selectorErr, depthErr); err != nil {
		return malformedCall(err)
	}
	o, err := rpc.Call(t.ctx, t.repl, proto.ReplOutline, proto.OutlinePage{Page: page, Selector: selector, Depth: depth})
	if err != nil {
		return pageFailed(err)
	}
	return result{text: text.Middle(o.Text, pageBytes/4*3, pageBytes/4, "\n... (%d bytes are left out here: give a selector, or a smaller depth) ...\n")}
}

func shorten(s string, limit int) string {
	return text.Middle(s, limit/4*3, limit/4, "\n... (%d bytes are left out here; the page's file has more) ...\n")
}

// evaluated returns the envelope of code that ran in a page. If the code failed, the
// call failed, so that the model does not mistake the error for an answer. Value and
// error are shortened to about limit bytes, each text of the background to a fraction
// of it. With a sandbox, a note says that pages are outside of it.
func evaluated(r proto.Evaluated, limit int, sandbox proto.Level) proto.Raw {
	data := struct {
		Kind       string            `json:"kind,omitzero"`
		Value      string            `json:"value,omitzero"`
		Background []proto.PageEvent `json:"background,omitzero"`
		Omitted    int               `json:"background_omitted,omitzero"`
		DurationMS int64             `json:"duration_ms"`
		File       string            `json:"file,omitzero"`
		Whole      string            `json:"whole,omitzero"`
		Note       string            `json:"note,omitzero"`
	}{Omitted: r.Omitted, DurationMS: r.DurationMS, File: r.File, Whole: r.Whole}
	if r.Value != nil {
		data.Kind, data.Value = r.Kind, shorten(*r.Value, limit)
	}
	for _, e := range r.Background {
		const part = 32 // there are up to ten events with two texts each
		e.Message, e.Stack = shorten(e.Message, limit/part), shorten(e.Stack, limit/part)
		data.Background = append(data.Background, e)
	}
	if sandbox.Confined() {
		data.Note = fmt.Sprintf("Pages are not confined: this code ran outside the sandbox (%s) of this turn.", sandbox)
	}
	if r.OK {
		return success(data)
	}
	// The error comes first: data can be long.
	failed := encode(proto.Envelope{Error: &proto.ToolError{Code: proto.ToolPageError, Message: shorten(r.Error, limit)}})
	return append(append(append(failed[:len(failed)-1], `,"data":`...), encode(data)...), '}')
}
