package sessions

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/attach/kind"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

func newShow(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "show what was said and done in a session", Annotations: command.PrintsJSON,
		Long: `Show a session: what was said, the tools that were called and what they gave,
interruptions, errors, and what it took of models. Long results are shortened;
zino sessions export has all of them. With --json each line is an event
as it is stored.`,
		Example: "  zino sessions show 550e | less",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := command.OneSession(cmd, args)
			if err != nil {
				return err
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error { return show(ctx, env, d, id) })
		},
	}
}

// show prints a session piece by piece, as it is read.
func show(ctx context.Context, env *command.Env, d *connect.Daemon, id string) error {
	summary, err := connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: id})
	if err != nil {
		return err
	}
	w := bufio.NewWriter(env.Out)
	p := newPrinter(w)
	skipped, end := 0, int64(0)
	err = Pieces(ctx, d, summary.SessionID, func(piece proto.SessionEvents) error {
		skipped, end = skipped+piece.Skipped, piece.Next
		if env.JSON() {
			return render.JSONItems(w, piece.Events)
		}
		if !p.begun {
			p.begun = true
			if err := p.print("Session " + piece.SessionID); err != nil {
				return err
			}
		}
		for event := range wire.Items(piece.Events) {
			if err := p.event(event); err != nil {
				return err
			}
		}
		return nil
	})
	if flushErr := w.Flush(); err == nil {
		err = flushErr
	}
	if err != nil {
		return err
	}
	p.warn(env, summary.SessionID, skipped, summary.Bytes-end)
	return nil
}

// Pieces reads the events of a session, a piece at a time.
func Pieces(ctx context.Context, d *connect.Daemon, id string, each func(proto.SessionEvents) error) error {
	req := proto.ReadSession{SessionID: id}
	for {
		piece, err := connect.Forward(ctx, d, "mem", proto.MemReadSession, req)
		if err != nil {
			return err
		}
		if err := each(piece); err != nil || !piece.More {
			return err
		}
		if piece.Next <= req.From {
			return errEndless
		}
		req.From = piece.Next
	}
}

// Event is a stored event, with the keys of all types.
type Event struct {
	Type       string    `json:"type"`
	Time       string    `json:"ts,omitzero"`
	Role       string    `json:"role,omitzero"`
	Text       *string   `json:"text,omitzero"`
	Partial    bool      `json:"partial,omitzero"`
	ID         string    `json:"id,omitzero"`
	Name       string    `json:"name,omitzero"`
	Input      proto.Raw `json:"input,omitzero"`
	UseID      string    `json:"tool_use_id,omitzero"`
	Output     proto.Raw `json:"output,omitzero"`
	DurationMS *int64    `json:"duration_ms,omitzero"`
	Message    string    `json:"message,omitzero"`
	Kind       string    `json:"kind,omitzero"`
	Root       string    `json:"root,omitzero"`
	Files      proto.Raw `json:"attachments,omitzero"`
	ForkedFrom struct {
		SessionID string `json:"session_id"`
	} `json:"forked_from,omitzero"`
}

// printer prints the events of a session. It indents texts, so that they do not look
// like headings.
type printer struct {
	w     io.Writer
	begun bool              // the first line was printed
	calls map[string]string // names of calls without a result, by id

	broken  int            // events without a required key
	strange int            // messages with an unknown role
	unknown map[string]int // events of unknown types, by type
}

func newPrinter(w io.Writer) *printer {
	return &printer{w: w, calls: map[string]string{}, unknown: map[string]int{}}
}

// block prints an empty line, a line, and texts below it.
func (p *printer) block(line string, texts ...string) error {
	if _, err := io.WriteString(p.w, "\n"); err != nil {
		return err
	}
	return p.print(line, texts...)
}

func (p *printer) print(line string, texts ...string) error {
	line = render.Line(line)
	for _, s := range texts {
		s = text.Visible(strings.Trim(s, "\n"))
		line += "\n  " + strings.ReplaceAll(s, "\n", "\n  ")
	}
	_, err := io.WriteString(p.w, line+"\n")
	return err
}

func (p *printer) event(raw []byte) error {
	const unknownMax = 16 // further unknown types are counted together
	var e Event
	if err := wire.Decode(raw, &e); err != nil {
		p.broken++
		return nil
	}
	switch {
	case e.Type == proto.TypeMeta:
		return p.meta(e)
	case e.Type == proto.TypeMessage && e.Text != nil && e.Role != "":
		return p.message(e)
	case e.Type == proto.TypeToolUse && e.Name != "":
		p.calls[e.ID] = e.Name
		var line strings.Builder
		line.WriteString("Tool requested: " + e.Name)
		for key, value := range wire.Members(e.Input) {
			line.WriteString(" " + string(key) + "=" + argument(value))
		}
		return p.block(line.String())
	case e.Type == proto.TypeToolResult && len(e.Output) > 0:
		return p.result(e)
	case e.Type == proto.TypeInterrupted:
		return p.block("Interrupted.")
	case e.Type == proto.TypeError && e.Message != "":
		if e.Kind != "" {
			return p.block(fmt.Sprintf("Error [%s]: %s", e.Kind, e.Message))
		}
		return p.block("Error: " + e.Message)
	case e.Type == proto.TypeUsage:
		return p.usage(raw)
	case slices.Contains([]string{proto.TypeMessage, proto.TypeToolUse, proto.TypeToolResult, proto.TypeError}, e.Type):
		p.broken++
	case slices.Contains([]string{proto.TypeTurn, proto.TypeSay, proto.TypeUndo, proto.TypeTodo, proto.TypeTools, proto.TypeHook}, e.Type): // the messages say what happened
	case p.unknown[e.Type] > 0 || len(p.unknown) < unknownMax:
		p.unknown[e.Type]++
	default:
		p.unknown["others"]++
	}
	return nil
}

func (p *printer) meta(e Event) error {
	lines := []string{}
	if e.Time != "" {
		lines = append(lines, "Begun "+render.LocalTime(e.Time))
	}
	if e.Root != "" {
		lines = append(lines, "In "+e.Root)
	}
	if from := e.ForkedFrom.SessionID; from != "" {
		lines = append(lines, "A copy of "+from)
	}
	for _, line := range lines {
		if err := p.print(line); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) message(e Event) error {
	who := map[string]string{proto.RoleUser: "User", proto.RoleAssistant: "Assistant"}[e.Role]
	if who == "" {
		p.strange++
		who = e.Role
	}
	if e.Time != "" {
		who += ", " + render.LocalTime(e.Time)
	}
	if e.Partial {
		who += " (cut off)"
	}
	return p.block(who+":", append([]string{*e.Text}, attached(e.Files)...)...)
}

// attached describes attachments, a line each.
func attached(list proto.Raw) (lines []string) {
	for _, a := range filesOf(list) {
		lines = append(lines, "Attached: "+render.Attachment(a))
	}
	return lines
}

// filesOf returns the attachments of an event, without malformed ones.
func filesOf(list proto.Raw) (files []proto.Attachment) {
	if !wire.Valid(list) || list[0] != '[' {
		return nil
	}
	for element := range wire.Items(list) {
		var a proto.Attachment
		if wire.DecodeReply(element, &a) != nil {
			continue
		}
		if _, ok := kind.Sum(a.ID); ok {
			files = append(files, a)
		}
	}
	return files
}

// usage prints the usage of an inference.
func (p *printer) usage(raw []byte) error {
	var u proto.InferenceUsage
	if err := wire.DecodeReply(raw, &u); err != nil {
		p.broken++
		return nil
	}
	line := fmt.Sprintf("Usage: %d tokens in", u.InputTokens)
	if u.CacheReadTokens > 0 {
		line += fmt.Sprintf(" (%d from the cache)", u.CacheReadTokens)
	}
	line += fmt.Sprintf(", %d out", u.OutputTokens)
	if u.CostUSD != nil {
		line += ", " + render.Dollars(*u.CostUSD)
	}
	if u.Model != "" {
		line += ", " + u.Model
	}
	return p.block(line)
}

// argument formats an argument of a call on one line.
func argument(value []byte) string {
	const limit = 200 // cells
	if s, ok := wire.Unquote(nil, value); ok {
		return strconv.Quote(render.Cut(string(s), limit))
	}
	return render.Cut(render.Line(string(value)), limit)
}

// storedResult is a proto.Envelope with what is shown of its data.
type storedResult struct {
	OK   *bool `json:"ok"`
	Data struct {
		ExitCode    *int    `json:"exit_code,omitzero"`
		TimedOut    bool    `json:"timed_out,omitzero"`
		Interrupted bool    `json:"interrupted,omitzero"`
		Stdout      *string `json:"stdout,omitzero"`
		Stderr      string  `json:"stderr,omitzero"`
		Content     *string `json:"content,omitzero"`
	} `json:"data,omitzero"`
	Error proto.ToolError `json:"error,omitzero"`
}

// result prints how a call ended, and the beginning of what it returned.
func (p *printer) result(e Event) error {
	name, known := p.calls[e.UseID]
	if !known {
		name = "(a call that is not here)"
	}
	delete(p.calls, e.UseID)
	took := ""
	if e.DurationMS != nil {
		took = fmt.Sprintf(" (%.2fs)", float64(*e.DurationMS)/1000)
	}
	line := "Tool finished: " + name
	var r storedResult
	if err := wire.DecodeReply(e.Output, &r); err != nil || r.OK == nil { // not an envelope
		whole := string(e.Output)
		if s, ok := wire.Unquote(nil, e.Output); ok {
			whole = string(s)
		}
		return p.print(line+took, shorten(whole)...)
	}
	if !*r.OK {
		return p.print(line+" failed"+took, shorten(r.Error.Code+": "+r.Error.Message)...)
	}
	switch {
	case r.Data.Interrupted:
		line += " interrupted=true"
	case r.Data.TimedOut:
		line += " timed_out=true"
	case r.Data.ExitCode != nil:
		line += fmt.Sprintf(" exit=%d", *r.Data.ExitCode)
	}
	var texts []string
	switch {
	case r.Data.Stdout != nil:
		texts = shorten(*r.Data.Stdout)
		if stderr := shorten(r.Data.Stderr); len(stderr) > 0 {
			texts = append(append(texts, "[stderr]"), stderr...)
		}
	case r.Data.Content != nil:
		texts = shorten(*r.Data.Content)
	default:
		for key, value := range wire.Members(e.Output) {
			if string(key) == "data" {
				texts = shorten(string(value))
				break
			}
		}
	}
	return p.print(line+took, append(texts, attached(e.Files)...)...)
}

// shorten returns the beginning of a text and, if it was cut, a note with its size;
// nothing for an empty text.
func shorten(s string) []string {
	const (
		maxLines = 12
		maxCells = 2000
	)
	s = strings.Trim(s, "\n")
	if s == "" {
		return nil
	}
	lines := strings.Split(s, "\n")
	first := strings.Join(lines[:min(len(lines), maxLines)], "\n")
	shown := render.Cut(first, maxCells)
	if len(lines) > maxLines || len(shown) < len(first) {
		return []string{shown, fmt.Sprintf("[%d bytes in %d lines in all: zino sessions export shows them]", len(s), len(lines))}
	}
	return []string{shown}
}

// warn prints what was left out: skipped lines and unknown events, and the bytes of an
// incomplete last line, as left by a crash.
func (p *printer) warn(env *command.Env, id string, skipped int, torn int64) {
	if skipped > 0 {
		env.Say("Warning: lines of the file that are not events were left out: %d", skipped)
	}
	if torn > 1 { // one byte is an empty line
		env.Say("Warning: the last line of the file is not whole and was left out: %d bytes", torn)
	}
	if p.broken > 0 {
		env.Say("Warning: events that lack something were left out: %d; zino sessions show %s --json prints them", p.broken, id)
	}
	if p.strange > 0 {
		env.Say("Warning: messages whose role is neither user nor assistant, which no model is sent: %d", p.strange)
	}
	if len(p.unknown) == 0 {
		return
	}
	var types []string
	for _, typ := range slices.Sorted(maps.Keys(p.unknown)) {
		types = append(types, fmt.Sprintf("%s (%d)", render.Cut(render.Line(typ), render.CellMax), p.unknown[typ]))
	}
	env.Say("Warning: events of types that are not known here were left out: %s", strings.Join(types, ", "))
}
