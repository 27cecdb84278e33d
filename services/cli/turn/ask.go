package turn

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"zino/pkg/approval"
	"zino/pkg/form"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// noteMax is the length of the reason of a denial, in characters.
const noteMax = 2000

// asker asks the person at the terminal about the requests of a turn, one after the other.
type asker struct {
	d      *connect.Daemon
	turns  render.Turns // locked: it is called from two goroutines
	in     *os.File
	root   string // the directory of the reader
	colour bool

	mu      sync.Mutex
	list    []question     // the first one is shown
	sent    string         // the request whose answer is on its way
	asking  func()         // ends the question that is shown; nil: none is
	running sync.WaitGroup // the goroutine that asks
}

// question is a request to allow a call, or for input.
type question struct {
	approval *proto.Approval
	input    *form.Dialog
}

func (w question) id() string {
	if w.input != nil {
		return w.input.ID()
	}
	return w.approval.ID
}

func (w question) line() string {
	if w.input != nil {
		return w.input.Line()
	}
	return render.ApprovalLine(&w.approval.Call)
}

// newAsker returns an asker if a person is at the terminal, else nil: then requests are
// printed for a person who answers elsewhere.
func newAsker(env *command.Env, d *connect.Daemon, turns render.Turns, root string) *asker {
	if !env.HasPerson() {
		return nil
	}
	return &asker{d: d, turns: turns, in: env.In, root: root, colour: term.Fancy()}
}

// packet handles a packet about a request. ctx ends the questions.
func (q *asker) packet(ctx context.Context, typ string, payload []byte) error {
	switch typ {
	case proto.TypeApprovalClosed:
		var closed proto.ApprovalClosed
		if err := wire.DecodeReply(payload, &closed); err != nil {
			return err
		}
		return q.closed(closed.Approval, approval.ClosedText(closed.State, closed.By))
	case proto.TypeInputClosed:
		var closed proto.InputClosed
		if err := wire.DecodeReply(payload, &closed); err != nil {
			return err
		}
		return q.closed(closed.ID, form.ClosedText(closed, approval.Person))
	case proto.TypeInputRequested:
		var in proto.InputRequested
		if err := wire.DecodeReply(slices.Clone(payload), &in); err != nil {
			return err
		}
		dialog, err := form.NewDialog(in)
		if err != nil {
			return nil // of a later version: another client may answer
		}
		q.add(ctx, question{input: dialog})
		return nil
	}
	a := &proto.Approval{}
	if err := wire.DecodeReply(slices.Clone(payload), a); err != nil {
		return err
	}
	q.add(ctx, question{approval: a})
	return nil
}

// add adds a request, or replaces a call that has changed.
func (q *asker) add(ctx context.Context, w question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := q.find(w.id()); i >= 0 {
		if a := q.list[i].approval; a != nil && a.Digest != w.approval.Digest {
			q.list[i] = w
			if i == 0 && q.asking != nil {
				q.asking()
			}
		}
		return
	}
	if q.list = append(q.list, w); len(q.list) == 1 {
		q.running.Go(func() { q.run(ctx) })
	}
}

// find is called with mu locked.
func (q *asker) find(id string) int {
	return slices.IndexFunc(q.list, func(w question) bool { return w.id() == id })
}

// closed removes a request that was answered elsewhere, or that is void.
func (q *asker) closed(id, why string) error {
	q.mu.Lock()
	i := q.find(id)
	if i < 0 || q.sent == id { // the answer to it says more
		q.mu.Unlock()
		return nil
	}
	w, asking := q.list[i], q.asking
	q.mu.Unlock()
	if i == 0 {
		q.turns.Ask("", "")
	}
	err := q.say(why + ": " + w.line())
	q.drop(id)
	if i == 0 && asking != nil {
		asking()
	}
	return err
}

// drop removes a request.
func (q *asker) drop(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := q.find(id); i >= 0 {
		q.list = slices.Delete(q.list, i, i+1)
	}
}

// reset forgets the requests: the daemon sends those that are pending again.
func (q *asker) reset() {
	q.mu.Lock()
	q.list = nil
	if q.asking != nil {
		q.asking()
	}
	q.mu.Unlock()
	q.running.Wait()
}

// run asks until no request is left or ctx ends.
func (q *asker) run(ctx context.Context) {
	for {
		q.mu.Lock()
		if len(q.list) == 0 || ctx.Err() != nil {
			q.mu.Unlock()
			return
		}
		w := q.list[0]
		asking, stop := context.WithCancel(ctx)
		q.asking = stop
		q.mu.Unlock()
		var answer proto.Approve
		var content *proto.AnswerInput
		var err error
		if !term.InForeground(q.in) {
			err = errors.New("in the background")
		} else {
			term.Discard(q.in) // what was typed before answers nothing
			if w.input != nil {
				content, err = q.askInput(asking, w.input)
			} else {
				answer, err = q.ask(asking, w.approval)
			}
		}
		over := asking.Err() != nil
		stop()
		if err != nil && !over && w.input != nil { // the end of the input, or a terminal that cannot be read
			content, err = w.input.Cancel(), nil
			q.turns.Ask("", "")
		}
		q.mu.Lock()
		q.asking = nil
		if !over && err == nil {
			q.sent = w.id()
		}
		q.mu.Unlock()
		switch {
		case over:
			q.turns.Ask("", "")
		case w.input != nil:
			q.answerInput(w.input, content)
		case err != nil: // the terminal cannot be read: a person answers elsewhere
			q.turns.Ask(render.ApprovalWait(w.approval)+"\n", "")
			q.drop(w.id())
		default:
			q.answer(w.approval, answer)
		}
	}
}

// askInput asks for input until it is answered.
func (q *asker) askInput(ctx context.Context, d *form.Dialog) (answer *proto.AnswerInput, err error) {
	for answer == nil {
		q.turns.Ask(d.Text(), d.Prompt())
		line, err := term.ReadLineUntil(ctx, q.in)
		if err != nil {
			return nil, err
		}
		q.turns.Typed()
		answer = d.Enter(line)
	}
	return answer, nil
}

// answerInput sends an answer. Values that are refused are asked for again.
func (q *asker) answerInput(d *form.Dialog, answer *proto.AnswerInput) {
	ctx, stop := context.WithTimeout(context.Background(), leaveLimit)
	defer stop()
	_, err := rpc.Call(ctx, q.d.Client, proto.DaemonAnswerInput, *answer)
	switch {
	case err == nil:
		q.say(form.Answered[answer.Action] + ": " + d.Line())
	case errors.Is(err, proto.ErrInvalid):
		d.Refused(err.Error())
	default:
		q.say(err.Error())
	}
	q.mu.Lock()
	q.sent = ""
	q.mu.Unlock()
	if !errors.Is(err, proto.ErrInvalid) {
		q.drop(d.ID())
	}
}

// ask shows a request until it is answered. Enter alone answers nothing.
func (q *asker) ask(ctx context.Context, a *proto.Approval) (answer proto.Approve, err error) {
	prompt := choices(a)
	q.turns.Ask(render.Approval(a, q.root, q.colour), prompt)
	for {
		line, err := term.ReadLineUntil(ctx, q.in)
		if err != nil && !errors.Is(err, io.EOF) {
			return answer, err
		}
		if err == nil {
			q.turns.Typed()
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		answer = proto.Approve{ID: a.ID, Digest: a.Digest}
		more := ""
		switch word = strings.ToLower(word); {
		case (word == "y" || word == "yes") && rest == "":
			answer.Answer = proto.AnswerOnce
		case (word == "s" || word == "session") && approval.Grants(a, proto.AnswerSession):
			answer.Answer, answer.Pattern = proto.AnswerSession, rest
		case (word == "a" || word == "always") && approval.Grants(a, proto.AnswerAlways):
			answer.Answer, answer.Pattern = proto.AnswerAlways, rest
		case word == "n" || word == "no":
			answer.Answer, answer.Note = proto.AnswerDeny, text.Clip(rest, noteMax)
		case word == "e" || word == "explain":
			more = render.ApprovalDetails(a)
		}
		if answer.Answer != "" {
			return answer, nil
		}
		q.turns.Ask(more, prompt)
	}
}

// choices returns the prompt below a request.
func choices(a *proto.Approval) string {
	prompt := "[y]es once, "
	if approval.Grants(a, proto.AnswerSession) {
		prompt += "[s]ession, "
	}
	if approval.Grants(a, proto.AnswerAlways) {
		prompt += "[a]lways"
		if pattern := approval.Pattern(&a.Call); pattern != "" {
			prompt += ` "` + render.Line(pattern) + `"`
		}
		prompt += ", "
	}
	return prompt + "[n]o (reason), [e]xplain why: "
}

// answer sends an answer. A request whose answer was refused is asked again, as it is now,
// unless it is no longer pending.
func (q *asker) answer(a *proto.Approval, answer proto.Approve) {
	ctx, stop := context.WithTimeout(context.Background(), leaveLimit)
	defer stop()
	_, err := rpc.Call(ctx, q.d.Client, proto.DaemonApprove, answer)
	var now *proto.Approval
	if err == nil {
		q.say(approval.Answered[answer.Answer] + ": " + render.ApprovalLine(&a.Call))
	} else {
		q.say(err.Error())
		list, err := rpc.Call(ctx, q.d.Client, proto.DaemonApprovals, proto.ListApprovals{})
		if i := slices.IndexFunc(list.Approvals, func(b proto.Approval) bool { return b.ID == a.ID }); i >= 0 {
			now = &list.Approvals[i]
		} else if err != nil { // unknown
			now = a
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent = ""
	switch i := q.find(a.ID); {
	case i < 0:
	case now == nil:
		q.list = slices.Delete(q.list, i, i+1)
	default:
		q.list[i] = question{approval: now}
	}
}

// say prints a line.
func (q *asker) say(line string) error {
	packet, err := wire.AppendObject(nil, proto.TypeNotice, proto.Notice{Text: line})
	if err != nil {
		return err
	}
	return q.turns.Event(proto.TypeNotice, packet)
}
