package rtr

import (
	"context"
	"slices"
	"strings"

	"zino/pkg/config"
	"zino/services/rtr/ledger"
	"zino/services/rtr/wire"
)

// adjust gives effect to what the configuration knows of the target's model.
// For each key the first entry that matches and has it decides.
func (s *Service) adjust(t *target) {
	var price config.Model
	tools, field, asked, refuses := "", "", "", (*[]string)(nil)
	for _, m := range s.set.known {
		if m.Provider != "" && m.Provider != t.caps.Provider || !matches(m.Name, t.caps.Model) {
			continue
		}
		tools, field, asked = first(tools, m.Tools), first(field, m.MaxTokensField), first(asked, m.Wire)
		if refuses == nil {
			refuses = m.Refuses
		}
		if t.context == 0 {
			t.context = m.Context
		}
		price.Input, price.Output = firstPrice(price.Input, m.Input), firstPrice(price.Output, m.Output)
		price.CacheRead, price.CacheWrite = firstPrice(price.CacheRead, m.CacheRead), firstPrice(price.CacheWrite, m.CacheWrite)
	}
	if tools != "" {
		t.traits.TextTools = tools == "text"
	}
	if field != "" {
		t.traits.MaxTokensField = field
	}
	t.anyWire = asked == "" && !isOpenAI(t.ep.Base)
	switch {
	case asked != "":
		t.traits.Responses = asked == "responses"
	case t.anyWire && t.wire() == "responses":
		t.noResponses = s.efforts.whyNoResponses(t.caps.Endpoint)
		t.traits.Responses = t.noResponses == ""
	}
	if t.wire() == "responses" {
		t.infer = wire.Responses
	}
	if refuses != nil {
		t.traits.NoTemperature, t.traits.NoTopP = slices.Contains(*refuses, "temperature"), slices.Contains(*refuses, "top_p")
		t.traits.NoStreamOptions, t.traits.NoAssistantLast = slices.Contains(*refuses, "stream_options"), slices.Contains(*refuses, "assistant_last")
	}
	t.caps.NativeTools = !t.traits.TextTools
	t.price = t.priceOf(price)
	if t.window = t.context; t.window == 0 && t.own {
		b, _ := builtInFor(t.caps.Provider, t.caps.Model)
		t.window = b.context
	}
}

// matches reports whether a pattern, in which '*' stands for any characters, is
// that of a model.
func matches(pattern, model string) bool {
	head, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return pattern == model
	}
	model, ok := strings.CutPrefix(model, head)
	for ok && strings.Contains(rest, "*") {
		var middle string
		middle, rest, _ = strings.Cut(rest, "*")
		_, model, ok = strings.Cut(model, middle)
	}
	return ok && strings.HasSuffix(model, rest)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func firstPrice(a, b *float64) *float64 {
	if a != nil {
		return a
	}
	return b
}

// priceOf returns the price of the target's model, nil if it is unknown: what is
// built in, with the configured fields m in place of its own. Models on one's own
// Ollama cost nothing, and neither do those that OpenRouter calls free.
func (t *target) priceOf(m config.Model) *ledger.Price {
	var p ledger.Price
	b, known := builtInFor(t.caps.Provider, t.caps.Model)
	local := t.caps.Provider == "ollama" && !strings.HasSuffix(t.caps.Model, "cloud") // Ollama's word for models that it passes on
	switch {
	case known && t.own:
		p = b.price
		if m.Input == nil || m.Output == nil || m.CacheRead == nil || m.CacheWrite == nil {
			p.Date = pricesDate
		}
	case m.Input != nil && m.Output != nil:
		p.CacheRead, p.CacheWrite = *m.Input, *m.Input
	case local, t.caps.Provider == "openrouter" && strings.HasSuffix(t.caps.Model, ":free"):
		return &ledger.Price{}
	default:
		return nil
	}
	for _, f := range []struct{ to, from *float64 }{{&p.Input, m.Input}, {&p.Output, m.Output}, {&p.CacheRead, m.CacheRead}, {&p.CacheWrite, m.CacheWrite}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	return &p
}

// learn asks Ollama, once, what the target's model can do. A server that does
// not say is asked with tools as text and with its own length of context.
func (s *Service) learn(ctx context.Context, t *target) *target {
	if !t.unknown {
		return t
	}
	learned := *t
	length, tools, err := wire.OllamaModel(ctx, t.ep, t.caps.Model)
	if err != nil {
		s.log.Debug("nothing is known of the model", "model", t.caps.Model, "error", err)
	}
	learned.unknown, learned.context, learned.traits.TextTools = err != nil, 0, err != nil || !tools
	s.adjust(&learned)
	if learned.context == 0 {
		learned.context, learned.window = length, length
	}
	if s.turn(ctx) == nil {
		for w, have := range s.chosen {
			if have == t {
				s.chosen[w] = &learned
			}
		}
		s.endTurn()
	}
	return &learned
}
