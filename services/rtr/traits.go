package rtr

import (
	"bytes"
	"net/url"
	"strings"
)

// traits are the ways in which a provider or model departs from the common
// OpenAI wire.
type traits struct {
	maxTokens       string // the name of the parameter that limits the answer
	noStreamOptions bool   // refuses stream_options
	noSampling      bool   // refuses temperature and top_p
	oneSampling     bool   // refuses both at once: a top_p of 1, which says nothing, is left out
	needsUser       bool   // refuses an assistant's message as the last: a user's "Continue." follows it
}

// departures lists them. A row holds where the host's name ends in host (empty:
// any) and the model's name, without the vendor before its slash, begins with
// one of models (none: any); all rows that hold apply.
var departures = []struct {
	host   string
	models []string
	set    func(*traits)
}{
	{"api.openai.com", nil, func(t *traits) { t.maxTokens = "max_completion_tokens" }},
	{"api.openai.com", []string{"o1", "o3", "o4", "gpt-5", "gpt-6"}, func(t *traits) { t.noSampling = true }},
	{"api.mistral.ai", nil, func(t *traits) { t.noStreamOptions, t.needsUser = true, true }},
	{"generativelanguage.googleapis.com", nil, func(t *traits) { t.needsUser = true }},
	{"", []string{"claude"}, func(t *traits) { t.oneSampling, t.needsUser = true, true }},
}

// traitsOf returns the traits of a model at an endpoint.
func traitsOf(base, model string) traits {
	t := traits{maxTokens: "max_tokens"}
	host := ""
	if u, err := url.Parse(base); err == nil {
		host = u.Hostname()
	}
	model = model[strings.LastIndexByte(model, '/')+1:]
	for _, d := range departures {
		if strings.HasSuffix(host, d.host) && beginsWith(model, d.models) {
			d.set(&t)
		}
	}
	return t
}

func beginsWith(s string, beginnings []string) bool {
	for _, b := range beginnings {
		if strings.HasPrefix(s, b) {
			return true
		}
	}
	return len(beginnings) == 0
}

// sends reports whether a sampling parameter goes out.
func (t traits) sends(name string, value float64) bool {
	return !t.noSampling && !(t.oneSampling && name == "top_p" && value == 1)
}

// complete adds what the provider needs after the last message.
func (t traits) complete(raw []byte) []byte {
	if !t.needsUser {
		return raw
	}
	list, err := readMessages(raw)
	if err != nil || len(list) == 0 {
		return raw
	}
	if last := list[len(list)-1]; !last.is("assistant") || last.callsTools() {
		return raw
	}
	head := bytes.TrimRight(raw, " \t\r\n")
	out := append([]byte(nil), head[:len(head)-1]...)
	return append(out, `,{"role":"user","content":"Continue."}]`...)
}
