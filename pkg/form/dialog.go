package form

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"zino/pkg/text"
	"zino/proto"
)

// Dialog asks a person for input, one line after the other. Its texts are safe to print.
type Dialog struct {
	request proto.InputRequested
	form    *Form // nil: a page
	values  []json.RawMessage
	state   int
	begun   string // the text of the beginning
	problem string // of the last line
}

// States of a dialog: the field that is asked for, or one of these.
const (
	offered = -1
	review  = -2
)

// NewDialog returns the dialog of a request. A form that cannot be read is an error.
func NewDialog(in proto.InputRequested) (*Dialog, error) {
	d := &Dialog{request: in, state: offered}
	server := text.VisibleLine(in.Server)
	if in.URL != "" {
		d.begun = "The MCP server " + server + " asks you to visit a page:\n" + indent(in.Message) + indent(in.URL)
		if page, err := url.Parse(in.URL); err == nil {
			d.begun += "It is on " + strings.Trim(strconv.QuoteToASCII(page.Host), `"`) + ". Zino does not open it.\n"
		}
		return d, nil
	}
	var err error
	if d.form, err = Parse(in.Schema); err != nil {
		return nil, err
	}
	d.begun = "The MCP server " + server + " asks for input:\n" + indent(in.Message) + "What you type goes to this server, not to the model.\n"
	return d, nil
}

// indent returns a text of the server as lines that cannot be taken for those of the dialog.
func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(text.Visible(strings.ToValidUTF8(s, "\ufffd"))) {
		b.WriteString("    " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}

// ID is the request.
func (d *Dialog) ID() string { return d.request.ID }

// Line describes the request on one line.
func (d *Dialog) Line() string {
	what := "input for "
	if d.form == nil {
		what = "a page of "
	}
	return what + text.VisibleLine(d.request.Server)
}

// Text returns the lines above the prompt.
func (d *Dialog) Text() string {
	if d.problem != "" {
		return text.VisibleLine(d.problem) + "\n"
	}
	switch {
	case d.state == offered:
		return d.begun
	case d.state == review:
		var b strings.Builder
		for i, f := range d.form.Fields {
			if d.values[i] != nil {
				b.WriteString(indent(text.OneLine(f.Title) + ": " + f.Typed(d.values[i])))
			}
		}
		return b.String()
	}
	f := &d.form.Fields[d.state]
	var b strings.Builder
	b.WriteString(text.VisibleLine(text.OneLine(f.Title)) + " (" + text.VisibleLine(f.Hint()) + ")\n" + indent(f.Description))
	for i, o := range f.Options {
		b.WriteString(indent(fmt.Sprintf("%d %s", i+1, text.OneLine(o.Title))))
	}
	return b.String()
}

// Prompt returns the prompt of the next line.
func (d *Dialog) Prompt() string {
	switch {
	case d.state == review:
		return "[s]end, [a]gain, [d]ecline, [c]ancel: "
	case d.state == offered && d.form != nil && len(d.form.Fields) > 0:
		return "[f]ill in, [d]ecline, [c]ancel: "
	case d.state == offered:
		return "[a]ccept, [d]ecline, [c]ancel: "
	}
	f := &d.form.Fields[d.state]
	prompt := text.VisibleLine(text.Clip(text.OneLine(f.Title), 60))
	if f.Default != nil {
		prompt += " [" + text.VisibleLine(text.Clip(text.OneLine(f.Typed(f.Default)), 60)) + "]"
	}
	return prompt + ": "
}

// Enter takes the line that was typed, and returns the answer when it is complete.
func (d *Dialog) Enter(line string) *proto.AnswerInput {
	d.problem = ""
	if d.state >= 0 {
		d.fill(line)
		return nil
	}
	word := strings.ToLower(strings.TrimSpace(line))
	is := func(whole string) bool { return word != "" && (word == whole || word == whole[:1]) }
	fields := d.form != nil && len(d.form.Fields) > 0
	switch {
	case is("decline"):
		return d.answer(proto.InputDecline)
	case is("cancel"):
		return d.Cancel()
	case d.state == offered && fields && is("fill in"), d.state == review && is("again"):
		d.state, d.values = 0, nil
	case d.state == review && is("send"), d.state == offered && !fields && is("accept"):
		return d.answer(proto.InputAccept)
	default:
		d.problem = "Type one of the letters in brackets."
	}
	return nil
}

// fill takes the value of a field.
func (d *Dialog) fill(line string) {
	f := &d.form.Fields[d.state]
	value, err := f.Read(line)
	if err != nil {
		d.problem = text.OneLine(f.Title) + ": " + err.Error()
		return
	}
	d.values = append(d.values, value)
	if d.state++; d.state == len(d.form.Fields) {
		d.state = review
	}
}

// Cancel returns the answer of a person who does not decide.
func (d *Dialog) Cancel() *proto.AnswerInput { return d.answer(proto.InputCancel) }

// Refused begins again after the daemon has refused an answer, for which it gives a reason.
func (d *Dialog) Refused(reason string) {
	d.state, d.values, d.problem = offered, nil, reason
}

func (d *Dialog) answer(action string) *proto.AnswerInput {
	answer := &proto.AnswerInput{ID: d.request.ID, Action: action}
	if action == proto.InputAccept && d.form != nil {
		answer.Content = proto.Raw(d.form.Content(d.values))
	}
	return answer
}

// Answered says what was answered, by action.
var Answered = map[string]string{proto.InputAccept: "Sent", proto.InputDecline: "Declined", proto.InputCancel: "Canceled"}

// ClosedText says why a request was closed.
func ClosedText(closed proto.InputClosed, person func(proto.Requester) string) string {
	if closed.By == nil {
		return "No longer needed"
	}
	return "Answered by " + person(*closed.By)
}
