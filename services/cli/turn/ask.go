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
	list    []*proto.Approval // the first one is shown
	sent    string            // the request whose answer is on its way
	asking  func()            // ends the question that is shown; nil: none is
	running sync.WaitGroup    // the goroutine that asks
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
	if typ == proto.TypeApprovalClosed {
		var closed proto.ApprovalClosed
		if err := wire.DecodeReply(payload, &closed); err != nil {
			return err
		}
		return q.closed(closed)
	}
	a := &proto.Approval{}
	if err := wire.DecodeReply(slices.Clone(payload), a); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := q.find(a.ID); i >= 0 {
		if q.list[i].Digest != a.Digest {
			q.replace(i, a)
		}
		return nil
	}
	if q.list = append(q.list, a); len(q.list) == 1 {
		q.running.Go(func() { q.run(ctx) })
	}
	return nil
}

// find is called with mu locked.
func (q *asker) find(id string) int {
	return slices.IndexFunc(q.list, func(a *proto.Approval) bool { return a.ID == id })
}

// replace is called with mu locked.
func (q *asker) replace(i int, a *proto.Approval) {
	q.list[i] = a
	if i == 0 && q.asking != nil {
		q.asking()
	}
}

// closed removes a request that was answered elsewhere, or that is void.
func (q *asker) closed(closed proto.ApprovalClosed) error {
	q.mu.Lock()
	i := q.find(closed.Approval)
	if i < 0 || q.sent == closed.Approval { // the answer to it says more
		q.mu.Unlock()
		return nil
	}
	a, asking := q.list[i], q.asking
	q.mu.Unlock()
	if i == 0 {
		q.turns.Ask("", "")
	}
	err := q.say(approval.ClosedText(closed.State, closed.By) + ": " + render.ApprovalLine(&a.Call))
	q.drop(a.ID)
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
		a := q.list[0]
		asking, stop := context.WithCancel(ctx)
		q.asking = stop
		q.mu.Unlock()
		answer, err := q.ask(asking, a)
		over := asking.Err() != nil
		stop()
		q.mu.Lock()
		q.asking = nil
		if !over && err == nil {
			q.sent = a.ID
		}
		q.mu.Unlock()
		switch {
		case over:
			q.turns.Ask("", "")
		case err != nil: // the terminal cannot be read: a person answers elsewhere
			q.turns.Ask(render.ApprovalWait(a)+"\n", "")
			q.drop(a.ID)
		default:
			q.answer(a, answer)
		}
	}
}

// ask shows a request until it is answered. What was typed before is discarded, and Enter
// alone answers nothing.
func (q *asker) ask(ctx context.Context, a *proto.Approval) (answer proto.Approve, err error) {
	if !term.InForeground(q.in) {
		return answer, errors.New("in the background")
	}
	prompt := choices(a)
	term.Discard(q.in)
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
		q.list[i] = now
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
