package wire

import (
	"bufio"
	"bytes"
	"io"

	"zino/pkg/sse"
	"zino/pkg/wire"
	"zino/proto"
)

// jsonLines reads a stream that has one JSON value a line (NDJSON): lines that
// end in LF or CRLF, blank ones without number, a byte order mark, and a last
// line without its end. It reads from its source only when it holds no whole
// line.
type jsonLines struct {
	in   *bufio.Reader
	any  bool   // a line has been returned
	long []byte // a line that is longer than the buffer of in
	err  error  // what ended the input
}

// next returns the next line that is not blank. It is valid until the next
// call. Lines in the middle are returned whatever they are; a last one without
// its end that is no JSON has been cut off, and only the error is returned.
func (l *jsonLines) next() ([]byte, error) {
	for l.err == nil {
		line, err := l.line()
		l.err = err
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !l.any && !wire.Valid(line) {
			line = l.spread(line)
		}
		if l.err != nil && !wire.Valid(line) {
			break
		}
		l.any = true
		return line, nil
	}
	return nil, l.err
}

// line returns the bytes up to the next line end or to the end of the input.
func (l *jsonLines) line() ([]byte, error) {
	l.long = l.long[:0]
	for {
		piece, err := l.in.ReadSlice('\n')
		if len(l.long)+len(piece) > sse.MaxEvent {
			return nil, sse.ErrTooLong
		}
		if err == nil && len(l.long) == 0 {
			return piece, nil
		}
		l.long = append(l.long, piece...)
		if err != bufio.ErrBufferFull {
			return l.long, err
		}
	}
}

// spread returns all of the input if that is one value in several lines, as
// proxies write their errors, else its first line. What is only the beginning
// of a value has been cut off.
func (l *jsonLines) spread(first []byte) []byte {
	if first[0] != '{' || l.err != nil {
		return first
	}
	all := append(bytes.Clone(first), '\n')
	rest, err := io.ReadAll(io.LimitReader(l.in, sse.MaxEvent))
	all = append(all, rest...)
	switch first = all[:len(first)]; {
	case err != nil:
		l.err = err
	case len(all) > sse.MaxEvent:
		l.err = sse.ErrTooLong
	case wire.Valid(all):
		l.err = io.EOF
		return bytes.TrimSpace(all)
	case unclosed(string(all)):
		l.err = io.EOF
	}
	return first
}

// ollamaAnswer reads an answer of Ollama's.
type ollamaAnswer struct {
	x        *exchange
	calls    int
	thinking []byte
	usage    proto.Usage
	done     bool // the line that ends the answer has come
	reason   string
	scratch  []byte
}

func (a *ollamaAnswer) read() error {
	in := bufio.NewReaderSize(a.x, 16<<10)
	first, err := firstByte(in)
	if first == '<' {
		return a.x.webPage(in)
	}
	if err != nil && err != io.EOF {
		return a.x.broken(err)
	}
	ending := events{x: a.x, any: first == '{'}
	for lines := (jsonLines{in: in}); !a.done; {
		line, err := lines.next()
		if err != nil {
			return ending.judge(false, err)
		}
		if err := a.take(line); err != nil {
			return err
		}
	}
	ending.done = true
	if err := ending.judge(true, nil); err != nil {
		return err
	}
	return a.end()
}

// end gives the last events of a complete answer.
func (a *ollamaAnswer) end() error {
	if a.usage.InputTokens+a.usage.OutputTokens > 0 {
		if err := a.x.emit(Event{Kind: Used, Usage: &a.usage}); err != nil {
			return err
		}
	}
	if a.calls > 0 && len(a.thinking) > 0 {
		thinking := append(wire.AppendString([]byte(`{"thinking":`), a.thinking), '}')
		if err := a.x.emit(Event{Kind: State, Delta: newState("ollama", a.x.req.Model, thinking)}); err != nil {
			return err
		}
	}
	if a.reason = stopReason(a.reason); a.calls > 0 && a.reason == "stop" {
		a.reason = "tool_calls" // Ollama has no word for it
	}
	return a.x.emit(Event{Kind: Finish, Reason: a.reason})
}

// take reads one line.
func (a *ollamaAnswer) take(raw []byte) error {
	if raw[0] != '{' || !wire.Valid(raw) {
		return a.x.unparsed(raw)
	}
	var message []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "error":
			if says(value) {
				return a.x.failed(raw)
			}
		case "message":
			message = value
		case "done":
			a.done = string(value) == "true"
		case "done_reason":
			a.reason = text(value)
		case "prompt_eval_count":
			setTokens(&a.usage.InputTokens, value)
		case "eval_count":
			setTokens(&a.usage.OutputTokens, value)
		}
	}
	return a.message(message)
}

// message reads what is new of the answer.
func (a *ollamaAnswer) message(raw []byte) error {
	var content, thinking, calls []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "content":
			content = value
		case "thinking":
			thinking = value
		case "tool_calls":
			calls = value
		}
	}
	if err := a.say(Reasoning, thinking); err != nil {
		return err
	}
	if err := a.say(Text, content); err != nil {
		return err
	}
	return a.callList(calls)
}

// say hands on a text, if there is any.
func (a *ollamaAnswer) say(kind Kind, value []byte) error {
	if len(value) <= 2 || value[0] != '"' {
		return nil
	}
	a.scratch = appendContent(a.scratch[:0], value)
	if kind == Reasoning {
		a.thinking = append(a.thinking, a.scratch...)
	}
	return a.x.emit(Event{Kind: kind, Delta: a.scratch})
}

// callList reads calls, each of which comes whole.
func (a *ollamaAnswer) callList(raw []byte) error {
	for element := range wire.Items(raw) {
		name, args := readFunction(memberOf(element, "function"))
		if name == "" {
			continue
		}
		if err := a.x.emit(Event{Kind: ToolStart, Index: a.calls, ID: text(memberOf(element, "id")), Name: name}); err != nil {
			return err
		}
		a.calls++
		if args == "" {
			continue
		}
		if err := a.x.emit(Event{Kind: ToolArgs, Index: a.calls - 1, Delta: []byte(args)}); err != nil {
			return err
		}
	}
	return nil
}
