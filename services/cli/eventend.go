package cli

import (
	"errors"
	"fmt"

	"zino/proto"
)

// emptyAnswer is what is said of a turn that has no text.
const emptyAnswer = "Warning: the model's answer was empty"

// used counts the tokens of an inference that has ended.
func (t *texts) used(e proto.InferenceUsage) error {
	t.usage.InputTokens += e.InputTokens
	t.usage.OutputTokens += e.OutputTokens
	t.usage.CostUSD = sumOf(t.usage.CostUSD, e.CostUSD)
	t.status.change(func() { t.status.tokens, t.status.coming = t.usage.OutputTokens, 0 })
	return nil
}

// sumOf adds costs, of which either may be unknown.
func sumOf(a, b *float64) *float64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	sum := *a + *b
	return &sum
}

// end closes the turn's text and says what there is to say of it.
func (t *texts) end(done turnEnd, err error) (told bool, writing error) {
	t.status.end()
	if !t.spoke { // a daemon that knows no events
		writing = t.text(done.Text)
	}
	writing = errors.Join(writing, t.endText())
	if err == nil && !t.answered {
		writing = errors.Join(writing, t.out.blank())
	}
	switch {
	case err != nil:
	case done.StopReason == "length":
		t.line("Warning: the answer was cut: it reached the limit of tokens for one answer; see --max-tokens")
	case done.StopReason == "refusal", done.StopReason == "filter":
		t.line("Warning: the model broke off: " + done.StopReason)
	case !t.answered:
		t.line(emptyAnswer)
	}
	if done.Usage != nil {
		t.usage = *done.Usage
	}
	if t.terminal && t.usage != (proto.Usage{}) && !errors.Is(err, errInterrupted) {
		t.usageLine()
	}
	t.usage, t.tools, t.spoke, t.answered = proto.Usage{}, 0, false, false
	return false, writing
}

func (t *texts) usageLine() {
	line := fmt.Sprintf("%s tokens in, %s out", count(t.usage.InputTokens), count(t.usage.OutputTokens))
	if t.usage.CostUSD != nil {
		line += ", " + dollars(*t.usage.CostUSD)
	}
	if t.colour {
		line = dimmed(line)
	}
	fmt.Fprintln(t.err, line)
}
