package wire

import "zino/pkg/wire"

// geminiAnswer reads a stream of responses, each of them whole: the parts that
// are new, and the usage so far.
type geminiAnswer struct {
	x        *exchange
	events   *events
	parts    partList
	calls    int
	usage    []byte // the last usageMetadata
	finished bool   // a finish reason has come
	reason   string
	scratch  []byte
}

// read reads the answer to its end. Each response has the usage so far; what is
// told is the last one, of a broken answer too: its tokens are paid for.
func (a *geminiAnswer) read() error {
	err := a.readEvents()
	if usage := geminiUsage(a.usage); usage != nil {
		if told := a.x.emit(Event{Kind: Used, Usage: usage}); err == nil {
			err = told
		}
	}
	if err != nil {
		return err
	}
	return a.end()
}

// readEvents reads on behind the finish reason: the usage may follow it.
func (a *geminiAnswer) readEvents() error {
	for {
		name, data, err := a.events.next()
		switch {
		case err != nil:
			return a.events.judge(a.finished, err)
		case name == "error":
			err = a.x.failed(data)
		default:
			err = a.take(data)
		}
		if err != nil {
			return err
		}
	}
}

// end gives the last events of a complete answer.
func (a *geminiAnswer) end() error {
	if a.calls > 0 && a.parts.signed {
		state := newState("gemini", a.x.req.Model, a.parts.list())
		if err := a.x.emit(Event{Kind: State, Delta: state}); err != nil {
			return err
		}
	}
	if a.calls > 0 && a.reason == "stop" {
		a.reason = "tool_calls" // Gemini has no word for it
	}
	return a.x.emit(Event{Kind: Finish, Reason: a.reason})
}

// take reads one response.
func (a *geminiAnswer) take(raw []byte) error {
	if !wire.Valid(raw) || raw[0] != '{' && raw[0] != '[' {
		return a.x.unparsed(raw)
	}
	if raw[0] == '[' { // the form that responses have without alt=sse
		return a.takeAll(raw)
	}
	var candidates, feedback []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "error":
			if says(value) {
				return a.x.failed(raw)
			}
		case "candidates":
			candidates = value
		case "usageMetadata":
			a.usage = append(a.usage[:0], value...)
		case "promptFeedback":
			feedback = value
		}
	}
	if !isList(candidates) {
		return a.x.unparsed(raw)
	}
	any := false
	for candidate := range wire.Items(candidates) {
		any = true
		if err := a.candidate(candidate); err != nil {
			return err
		}
	}
	if any {
		return nil
	}
	return a.blocked(feedback)
}

func (a *geminiAnswer) takeAll(raw []byte) error {
	for response := range wire.Items(raw) {
		if response[0] != '{' {
			return a.x.unparsed(raw)
		}
		if err := a.take(response); err != nil {
			return err
		}
	}
	return nil
}

// isList reports whether a member is a list; one that is not there and null are
// empty ones.
func isList(raw []byte) bool { return len(raw) == 0 || raw[0] == '[' || string(raw) == "null" }

// candidate reads the first of the candidates; another is none that we asked
// for.
func (a *geminiAnswer) candidate(raw []byte) error {
	var content, reason, message []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "index":
			if string(value) != "0" && string(value) != "null" {
				return nil
			}
		case "content":
			content = value
		case "finishReason":
			reason = value
		case "finishMessage":
			message = value
		}
	}
	parts := memberOf(content, "parts")
	if !isList(parts) {
		return a.x.unparsed(raw)
	}
	for part := range wire.Items(parts) {
		if err := a.part(part); err != nil {
			return err
		}
	}
	if reason == nil {
		return nil
	}
	return a.finish(text(reason), text(message))
}

// part reads a part. Of those that are neither text nor a call nothing is said,
// but they go back with the others.
func (a *geminiAnswer) part(raw []byte) error {
	p := readGeminiPart(raw)
	a.parts.add(raw, p)
	if len(a.parts.b) > MaxAnswer {
		return a.x.tooLarge()
	}
	switch {
	case p.call != nil:
		return a.call(p.call)
	case len(p.text) <= 2 || p.text[0] != '"':
		return nil
	}
	kind := Text
	if p.thought {
		kind = Reasoning
	}
	a.scratch = appendContent(a.scratch[:0], p.text)
	return a.x.emit(Event{Kind: kind, Delta: a.scratch})
}

// call reads a call, which comes whole. Arguments in pieces come only to those
// who ask for them; what is pieced together wrongly must not be run.
func (a *geminiAnswer) call(raw []byte) error {
	for key, value := range wire.Members(raw) {
		if string(key) == "partialArgs" && says(value) || string(key) == "willContinue" && string(value) == "true" {
			return a.x.garbled("sent the arguments of a call in pieces, which nobody asked for", raw)
		}
	}
	c := geminiCall(raw)
	if c.Name == "" {
		return nil
	}
	if err := a.x.emit(Event{Kind: ToolStart, Index: a.calls, ID: c.ID, Name: c.Name}); err != nil {
		return err
	}
	a.calls++
	if c.Args == "" {
		return nil
	}
	return a.x.emit(Event{Kind: ToolArgs, Index: a.calls - 1, Delta: []byte(c.Args)})
}
