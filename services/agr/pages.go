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

func (t *turn) listPages(*call, fields) result {
	pages, err := rpc.Call(t.ctx, t.repl, proto.ReplPages, proto.PagesRequest{})
	if err != nil {
		return failed(err)
	}
	return result{data: success(pages)}
}

// evalInPage runs code in a page. If the turn is canceled meanwhile, the answer is
// only in the page's file.
func (t *turn) evalInPage(_ *call, f fields) result {
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
	r, err := rpc.Call(t.ctx, t.repl, proto.ReplEval, proto.Eval{Page: page, Code: code, TimeoutMS: int64(limit), Sandbox: level})
	switch {
	case errors.Is(err, proto.ErrNotFound), errors.Is(err, proto.ErrInvalid):
		return refused("%v %s shows the pages.", err, pageList)
	case err != nil:
		return failed(err)
	}
	return result{data: evaluated(r, t.outputBytes, level)}
}

// evaluated returns the envelope of code that ran in a page. If the code failed, the
// call failed, so that the model does not mistake the error for an answer. Value and
// error are shortened to about limit bytes, each text of the background to a fraction
// of it. With a sandbox, a note says that pages are outside of it.
func evaluated(r proto.Evaluated, limit int, sandbox proto.Level) proto.Raw {
	shorten := func(s string, limit int) string {
		return text.Middle(s, limit/4*3, limit/4, "\n... (%d bytes are left out here; the page's file has more) ...\n")
	}
	data := struct {
		Kind       string            `json:"kind,omitzero"`
		Value      string            `json:"value,omitzero"`
		Background []proto.PageEvent `json:"background,omitzero"`
		Omitted    int               `json:"background_omitted,omitzero"`
		DurationMS int64             `json:"duration_ms"`
		File       string            `json:"file,omitzero"`
		Note       string            `json:"note,omitzero"`
	}{Kind: r.Kind, Value: shorten(r.Value, limit), Omitted: r.Omitted, DurationMS: r.DurationMS, File: r.File}
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
