package rtr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/proto"
	"zino/services/rtr/ledger"
	"zino/services/rtr/retry"
	"zino/services/rtr/wire"
)

// This file decides who answers a request: it turns the provider and model that a
// request or the configuration names into a target.

// vendor is a kind of provider.
type vendor struct {
	name      string
	infer     wire.Func
	models    wire.Lister
	embed     wire.Embedder // nil: the provider has no embeddings
	base      string        // its address, unless one is configured
	variable  string        // of the environment that overrides the configured address
	key       string        // of the configuration for the address, empty for none
	model     string        // used if no model is configured: a current one that is not expensive
	maxTokens int           // limit of an answer, in tokens, if none is configured; 0: the provider's own
}

// vendors are all kinds, in the order in which their keys are looked for.
var vendors = []vendor{
	{"anthropic", wire.Anthropic, wire.AnthropicModels, nil, "https://api.anthropic.com", "ANTHROPIC_BASE_URL", "anthropic_base_url", config.DefaultModels["anthropic"], 16384},
	{"openai", wire.OpenAI, wire.OpenAIModels, wire.OpenAIEmbed, "https://api.openai.com/v1", "OPENAI_BASE_URL", "openai_base_url", config.DefaultModels["openai"], 16384},
	{"gemini", wire.Gemini, wire.GeminiModels, nil, "https://generativelanguage.googleapis.com", "GEMINI_BASE_URL", "gemini_base_url", config.DefaultModels["gemini"], 16384},
	{"openrouter", wire.OpenRouter, wire.OpenRouterModels, wire.OpenAIEmbed, "https://openrouter.ai/api/v1", "OPENROUTER_BASE_URL", "openrouter_base_url", config.DefaultModels["openrouter"], 8192},
	{"ollama", wire.Ollama, wire.OllamaModels, wire.OllamaEmbed, "http://127.0.0.1:11434", "OLLAMA_HOST", "", "", 0},
}

func vendorOf(name string) (vendor, bool) {
	i := slices.IndexFunc(vendors, func(v vendor) bool { return v.name == name })
	if i < 0 {
		return vendor{}, false
	}
	return vendors[i], true
}

// isProvider reports whether a request may name a provider so.
func isProvider(name string) bool {
	_, ok := vendorOf(name)
	return ok || name == "" || name == "auto" || name == "offline"
}

func unknownProvider(name string) string {
	return fmt.Sprintf("there is no provider %.60q: it is one of %s, offline, auto", name, strings.Join(config.Providers, ", "))
}

// howToConnect lists the ways to connect a model. A stored key is the first, since a
// running rtr reads it at once and a variable only when it starts.
const howToConnect = "run `zino auth set PROVIDER` or `zino auth login openrouter`, set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or OPENROUTER_API_KEY " +
	"before the services start, or set [api] base_url (and key) to an OpenAI-compatible server"

// connectFully is howToConnect with the pages where keys are made, for errors of
// requests that need a model.
func connectFully() string {
	text := howToConnect
	for _, a := range keys.Accounts() {
		text = strings.Replace(text, a.Variable, a.Variable+" ("+a.Page+")", 1)
	}
	return text
}

// headersVariable holds headers for Anthropic, as in Anthropic's own clients. Their
// values are secrets.
const headersVariable = "ANTHROPIC_CUSTOM_HEADERS"

// settings are the configuration and environment that decide which model is asked,
// and how.
type settings struct {
	provider  string
	base      *url.URL // [api] base_url, nil if not set
	keys      keys.Search
	model     string
	maxTokens int
	streaming bool
	stall     time.Duration // 0: no limit
	bases     map[string]*url.URL
	invalid   map[string]error // base URLs that cannot be used: these providers alone cannot be asked
	fallback  []config.Fallback
	known     []config.Model
	headers   http.Header // ANTHROPIC_CUSTOM_HEADERS
	problems  []string    // with headers and bases
}

func readSettings(cfg *config.Config) (settings, error) {
	set := settings{
		provider: cfg.Provider, keys: keys.NewSearch(cfg, os.Getenv), model: cfg.Service.Model, maxTokens: cfg.MaxTokens,
		streaming: cfg.Rtr.Streaming, stall: time.Duration(cfg.Rtr.StallTimeout * float64(time.Second)),
		bases: map[string]*url.URL{}, invalid: map[string]error{}, fallback: cfg.Rtr.Fallback, known: cfg.Rtr.Model,
	}
	place := "" // begins an error about the configuration
	if cfg.File != "" {
		place = cfg.File + ": "
	}
	key := cmp.Or(cfg.API.Key, os.Getenv("ZINO_API_KEY")) // [api] key, as the CLI passes it on
	var err error
	if set.keys.Key, err = keys.Clean(key); err != nil && strings.TrimSpace(key) != "" {
		return settings{}, fmt.Errorf("%s[api] key: %w", place, err)
	}
	if set.base, err = parseBase(cfg.API.BaseURL); err != nil {
		return settings{}, fmt.Errorf("%s[api] base_url: %w", place, err)
	}
	set.headers, set.problems = customHeaders(os.Getenv(headersVariable))
	// The address of a provider comes from the environment, else the configuration,
	// else the built-in one is used. An empty value counts as not set.
	configured := map[string]string{
		"anthropic": cfg.AnthropicBaseURL, "openai": cfg.OpenAIBaseURL, "gemini": cfg.GeminiBaseURL, "openrouter": cfg.OpenRouterBaseURL,
	}
	for _, v := range vendors {
		from, value := v.variable, strings.TrimSpace(os.Getenv(v.variable))
		if value == "" {
			from, value = place+v.key, configured[v.name]
		} else if v.name == "ollama" {
			value = ollamaHost(value)
		}
		base, err := parseBase(value)
		if err != nil {
			set.invalid[v.name] = fmt.Errorf("%s: %w", from, err)
			set.problems = append(set.problems, set.invalid[v.name].Error())
		}
		if base != nil {
			set.bases[v.name] = base
		}
	}
	return set, nil
}

// parseBase checks a base URL; an empty one is nil. Its errors do not repeat it, as
// it may hold a password.
func parseBase(base string) (*url.URL, error) {
	base = strings.TrimRight(strings.TrimSpace(base), "/")
	if base == "" {
		return nil, nil
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("not a URL like https://host/v1")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("a base URL has no '?' and no '#'; paths such as /chat/completions are added to it")
	}
	return u, nil
}

// ollamaHost makes a URL of what OLLAMA_HOST may be: a URL, host:port, a host or
// :port. The server listens on 0.0.0.0 and answers on loopback.
func ollamaHost(value string) string {
	port := "" // a URL has its scheme's
	if !strings.Contains(value, "://") {
		if ip := net.ParseIP(value); ip != nil && ip.To4() == nil {
			value = "[" + value + "]"
		}
		value, port = "http://"+value, "11434"
	}
	u, err := url.Parse(value)
	if err != nil {
		return value
	}
	host := u.Hostname()
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port = cmp.Or(u.Port(), port); port != "" {
		host += ":" + port
	}
	u.Host = host
	return u.String()
}

// ownHeaders are set by rtr, even if the user's headers contain them: the credentials, the
// form of the body, and what belongs to one connection.
var ownHeaders = []string{
	"X-Api-Key", "Authorization", "Host", "Accept-Encoding", "Connection", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Trailers", "Transfer-Encoding", "Upgrade",
}

// customHeaders parses lines "Name: value", within the bounds of RFC 9110. A line
// that is not sent is a problem, which does not repeat the value.
func customHeaders(text string) (header http.Header, problems []string) {
	header = http.Header{}
	notInName := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }
	notInValue := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !ok || name == "" || strings.ContainsFunc(name, notInName) || strings.ContainsFunc(value, notInValue):
			problems = append(problems, fmt.Sprintf(`%s, line %d is not "Name: value" and is not sent: repair it`, headersVariable, n))
		case slices.Contains(ownHeaders, name) || strings.HasPrefix(name, "Content-"):
			problems = append(problems, fmt.Sprintf("%s, line %d: %s is for zino-rtr to set and is not sent: remove it", headersVariable, n, name))
		default:
			header.Add(name, value)
		}
	}
	return header, problems
}

// credential finds the key of a provider; first: [api] applies to it in this
// request.
func (s *Service) credential(account keys.Account, first bool) (key string, from keys.Source, err error) {
	search := s.set.keys
	if search.First = ""; first {
		search.First = account.Name
	}
	return search.Lookup(s.life, account)
}

// keyVariables names what rtr reads a key from. [api] and LLM_API_KEY are for the
// provider that is configured.
func keyVariables(a keys.Account, configured bool) string {
	if a.Name == "openai" && configured {
		return "[api] key, LLM_API_KEY or OPENAI_API_KEY"
	}
	return a.Variable
}

// keyHint names the settings of a provider's key, and how to store one.
func keyHint(a keys.Account, configured bool) string {
	return keyVariables(a, configured) + ", or run `zino auth set " + a.Name + "` (keys: " + a.Page + ")"
}

// selector is the provider and model that a request names; empty: as configured.
type selector struct {
	provider, model string
	fallback        bool // another provider has failed: this one is another
}

// target is a model at a provider.
type target struct {
	caps      proto.RouterCapabilities
	infer     wire.Func
	ep        *wire.Endpoint // nil for the offline provider and where no model can be asked
	maxTokens int            // limit of an answer where neither request nor configuration has one
	traits    wire.Traits
	genuine   bool // the provider itself or a gateway to it: what is built in holds
	context   int  // tokens that the model takes, as configured or as its server says; 0: unknown
	window    int  // the same, else what is built in
	price     *ledger.Price
	limiter   *retry.Limiter
	anyWire   bool // the wire is not configured: without a Responses API, chat completions are used
	unlearned bool // it is Ollama's, which has not been asked what the model can do
	lasting   bool // valid until the user's keys change

	noResponses string // why the endpoint has no Responses API, where the model would be asked there
}

// remote reports whether requests go to a provider.
func (t *target) remote() bool { return t.ep != nil }

// wire is the name of the target's wire.
func (t *target) wire() string {
	if t.caps.Provider == "openai" && t.traits.Responses {
		return "responses"
	}
	return t.caps.Provider
}

// lock locks the resolved targets; it waits until ctx ends.
func (s *Service) lock(ctx context.Context) error {
	select {
	case <-s.resolving:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Service) unlock() { s.resolving <- struct{}{} }

// target returns who answers. A lasting target is kept until the user's keys
// change; a search without a result is repeated, as a model server may have been
// started since.
func (s *Service) target(ctx context.Context, sel selector) (*target, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	stamp := ""
	if s.set.keys.Store != nil {
		stamp = s.set.keys.Store.Stamp()
	}
	if stamp != s.stamped {
		clear(s.resolved)
		s.stamped = stamp
	}
	had := s.resolved[sel]
	if had != nil && had.lasting {
		return had, nil
	}
	t := s.resolve(ctx, sel)
	if err := ctx.Err(); err != nil {
		return nil, err // the search was cut short
	}
	if had == nil || had.caps != t.caps {
		s.log.Info("model", "provider", t.caps.Provider, "model", t.caps.Model, "endpoint", t.caps.Endpoint, "found", t.caps.Found, "problem", t.caps.Problem)
	}
	s.resolved[sel] = t
	return t, nil
}

// replace puts another target in the place of a resolved one; nil has it resolved
// again.
func (s *Service) replace(ctx context.Context, t, with *target) {
	if s.lock(ctx) != nil {
		return // the caller has gone; the next request will learn the same
	}
	defer s.unlock()
	for sel, have := range s.resolved {
		if have == t && with == nil {
			delete(s.resolved, sel)
		} else if have == t {
			s.resolved[sel] = with
		}
	}
}

// names reports whether the configuration names a provider that has models.
func (s *Service) names() bool {
	_, ok := vendorOf(s.set.provider)
	return ok
}

// resolve finds the target of a selector. The default provider is used as
// configured, also if the selector names it.
func (s *Service) resolve(ctx context.Context, sel selector) *target {
	if !s.names() && s.set.provider != "offline" && !sel.fallback {
		if v, _, ok := s.implied(); ok && sel.provider == v.name {
			sel.provider = s.set.provider
		}
	}
	first := sel.provider == "" || sel.provider == s.set.provider
	if first {
		if sel.provider = s.set.provider; sel.model == "" {
			sel.model = s.set.model
		}
	}
	v, named := vendorOf(sel.provider)
	switch {
	case sel.provider == "offline":
		return offlineTarget(false)
	case sel.provider == "openai" && first && s.set.base != nil:
		return s.generic(ctx, sel)
	case named:
		return s.named(ctx, v, sel, first)
	case sel.provider != "" && sel.provider != "auto":
		return s.noTarget(sel, unknownProvider(sel.provider))
	}
	if sel.provider == "auto" {
		// The configured provider if it is usable, else as without a name.
		if s.names() {
			if t := s.resolve(ctx, selector{provider: s.set.provider, model: sel.model}); t.caps.Problem == "" {
				return t
			}
		} else {
			sel.model = cmp.Or(sel.model, s.set.model)
		}
	}
	v, configured, ok := s.implied()
	switch {
	case ok && configured && s.set.base != nil:
		return s.generic(ctx, sel)
	case ok:
		return s.named(ctx, v, sel, configured)
	case sel.provider != "auto":
		return s.noTarget(sel, "no model is connected: "+connectFully()+`, or provider = "auto" or "offline"`)
	}
	if t := s.probe(ctx, sel.model); t != nil {
		return t
	}
	return offlineTarget(true)
}

// implied returns the provider of a configuration that names none: the endpoint of
// [api], else the first provider with a key. configured is true if [api] is for it:
// without a name [api] is for OpenAI's wire, else for the provider named.
func (s *Service) implied() (v vendor, configured, ok bool) {
	openAI, _ := vendorOf("openai")
	free := !s.names() || s.set.provider == "openai"
	if free && s.set.keys.Configured() {
		return openAI, true, true
	}
	for _, v := range vendors {
		account, takesKey := keys.Find(v.name)
		if !takesKey {
			continue
		}
		if key, _, err := s.credential(account, false); err != nil || key != "" {
			return v, false, true
		}
	}
	return openAI, free, s.set.bases["openai"] != nil || s.set.invalid["openai"] != nil
}

// named returns a target at a provider that is known by its name.
func (s *Service) named(ctx context.Context, v vendor, sel selector, first bool) *target {
	sel.provider, sel.model = v.name, cmp.Or(sel.model, v.model)
	if err := s.set.invalid[v.name]; err != nil {
		return s.noTarget(sel, err.Error())
	}
	base := s.set.bases[v.name]
	if base == nil && v.name == "ollama" && first {
		base = s.set.base
	}
	if base == nil {
		base, _ = url.Parse(v.base) // ours are valid
	}
	account, takesKey := keys.Find(v.name)
	key, from, hint := "", keys.Source{}, "no key"
	if takesKey {
		var err error
		if key, from, err = s.credential(account, first); err != nil {
			return s.noTarget(sel, err.Error())
		}
		if hint = keyHint(account, first); from.Token {
			hint = from.Place
		}
		if key == "" && !wire.IsLocal(base.String()) {
			return s.noTarget(sel, v.name+" has no key: run `zino auth set "+v.name+"`, or set "+keyVariables(account, first)+" before the services start (keys: "+account.Page+")")
		}
	}
	ep := s.endpoint(v.name, base, key)
	ep.KeyHint, ep.BaseHint, ep.Token = hint, v.variable, from.Token
	if v.key != "" {
		ep.BaseHint += " and " + v.key
	}
	if v.name == "anthropic" {
		ep.Add(s.set.headers)
	}
	if v.name == "ollama" && sel.model == "" {
		model, err := wire.FirstModel(ctx, v.models, ep)
		if err != nil {
			return s.unanswered(sel, ep, err)
		}
		sel.model = model
	}
	t := s.newTarget(v, ep, sel.model, true)
	t.unlearned = v.name == "ollama"
	return t
}

// generic returns the OpenAI-compatible endpoint of [api] base_url. If no model is
// set, OpenAI has a default, and a server on this host or network is asked for one.
func (s *Service) generic(ctx context.Context, sel selector) *target {
	v, _ := vendorOf("openai")
	sel.provider, v.maxTokens = v.name, 0
	account, _ := keys.Find(v.name)
	genuine := s.set.base.Hostname() == "api.openai.com"
	key, _, err := s.credential(account, true)
	if err != nil {
		return s.noTarget(sel, err.Error())
	}
	ep := s.endpoint(v.name, s.set.base, key)
	ep.KeyHint, ep.BaseHint = keyHint(account, true), "[api] base_url"
	switch {
	case sel.model != "":
	case genuine:
		sel.model = v.model
	case wire.IsLocal(s.set.base.String()):
		sel.model, err = wire.FirstModel(ctx, v.models, ep)
	default:
		err = errors.New("no model is set: set [service] model")
	}
	if err != nil {
		return s.unanswered(sel, ep, err)
	}
	return s.newTarget(v, ep, sel.model, false)
}

// server is a default address of a model server.
type server struct{ provider, base string }

// localServers are in the order in which they are preferred: Ollama, llama.cpp, LM
// Studio, vLLM. Only literal loopback addresses belong here: a name could lead
// anywhere.
var localServers = []server{
	{"ollama", "http://127.0.0.1:11434"},
	{"openai", "http://127.0.0.1:8080/v1"},
	{"openai", "http://127.0.0.1:1234/v1"},
	{"openai", "http://127.0.0.1:8000/v1"},
}

const probeTime = 300 * time.Millisecond

// probe asks all local servers at once for their models, without a key and without
// any part of a conversation, and returns the first in order that has one. Any other
// program may listen on those ports, so only a list of models counts.
func (s *Service) probe(ctx context.Context, model string) *target {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	found := make([]*target, len(s.probes))
	var probing sync.WaitGroup
	for i, at := range s.probes {
		probing.Go(func() {
			u, err := url.Parse(at.base)
			if err != nil || net.ParseIP(u.Hostname()) == nil || !net.ParseIP(u.Hostname()).IsLoopback() {
				return
			}
			v, _ := vendorOf(at.provider)
			v.maxTokens = 0
			ep := s.endpoint(v.name, u, "")
			ep.BaseHint = "[api] base_url"
			first, err := wire.FirstModel(ctx, v.models, ep)
			if err != nil {
				s.log.Debug("no model server", "endpoint", at.base, "error", err)
				return
			}
			t := s.newTarget(v, ep, cmp.Or(model, first), v.name == "ollama")
			t.caps.Found, t.unlearned = true, v.name == "ollama"
			found[i] = t
		})
	}
	probing.Wait()
	if i := slices.IndexFunc(found, func(t *target) bool { return t != nil }); i >= 0 {
		return found[i]
	}
	return nil
}

// endpoint returns an endpoint that passes the rate limits in its answers to the
// provider's limiter.
func (s *Service) endpoint(name string, base *url.URL, key string) *wire.Endpoint {
	ep := wire.NewEndpoint(s.client, base, key, s.set.stall)
	ep.Provider, ep.Observe = name, s.limiters[name].Observe
	return ep
}

// newTarget returns a target with the built-in and configured traits of a model.
func (s *Service) newTarget(v vendor, ep *wire.Endpoint, model string, named bool) *target {
	t := &target{
		caps:  proto.RouterCapabilities{Provider: v.name, Model: model, Endpoint: ep.Name},
		infer: v.infer, ep: ep, maxTokens: v.maxTokens, limiter: s.limiters[v.name], lasting: true,
		traits: wire.TraitsOf(named, ep.Base, model), genuine: named || isOpenAI(ep.Base),
	}
	if named {
		t.traits.TakeSchema(v.name, model)
	}
	s.adjust(t)
	return t
}

// isOpenAI reports whether a base URL is OpenAI's own.
func isOpenAI(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Hostname() == "api.openai.com"
}

// noTarget answers every request with a problem.
func (s *Service) noTarget(sel selector, problem string) *target {
	refuse := func(context.Context, *wire.Endpoint, *wire.Request, wire.Sink) error {
		return &proto.Error{Code: proto.CodeUnavailable, Message: problem}
	}
	return &target{caps: proto.RouterCapabilities{Provider: sel.provider, Model: sel.model, Problem: problem}, infer: refuse}
}

// unanswered returns a target at an endpoint that lists no model. It is not kept.
func (s *Service) unanswered(sel selector, ep *wire.Endpoint, err error) *target {
	t := s.noTarget(sel, fmt.Sprintf("%s: %v", ep.Name, err))
	t.caps.Endpoint = ep.Name
	return t
}

// offlineTarget returns the offline provider. As the fallback of auto it is not
// kept.
func offlineTarget(fallback bool) *target {
	return &target{caps: proto.RouterCapabilities{Provider: "offline", Fallback: fallback}, infer: answerOffline, lasting: !fallback}
}

// adjust applies the configuration's entries for the target's model: for each key
// the first entry that matches and has it decides.
func (s *Service) adjust(t *target) {
	var m config.Model
	for _, entry := range s.set.known {
		if entry.Provider != "" && entry.Provider != t.caps.Provider || !matches(entry.Name, t.caps.Model) {
			continue
		}
		m.Tools, m.MaxTokensField, m.Wire = cmp.Or(m.Tools, entry.Tools), cmp.Or(m.MaxTokensField, entry.MaxTokensField), cmp.Or(m.Wire, entry.Wire)
		m.Schema = cmp.Or(m.Schema, entry.Schema)
		m.Refuses, t.context = cmp.Or(m.Refuses, entry.Refuses), cmp.Or(t.context, entry.Context)
		m.Images = cmp.Or(m.Images, entry.Images)
		m.Input, m.Output = cmp.Or(m.Input, entry.Input), cmp.Or(m.Output, entry.Output)
		m.CacheRead, m.CacheWrite = cmp.Or(m.CacheRead, entry.CacheRead), cmp.Or(m.CacheWrite, entry.CacheWrite)
	}
	if m.Tools != "" {
		t.traits.TextTools = m.Tools == "text"
	}
	if m.Schema != "" {
		t.traits.Schema, t.traits.SchemaAlone = m.Schema == "native", false
	}
	t.traits.MaxTokensField = cmp.Or(m.MaxTokensField, t.traits.MaxTokensField)
	t.anyWire = m.Wire == "" && !isOpenAI(t.ep.Base)
	switch {
	case m.Wire != "":
		t.traits.Responses = m.Wire == "responses"
	case t.anyWire && t.wire() == "responses":
		t.noResponses = s.efforts.whyNoResponses(t.caps.Endpoint)
		t.traits.Responses = t.noResponses == ""
	}
	if t.wire() == "responses" {
		t.infer = wire.Responses
	}
	if m.Images != nil {
		t.traits.NoImages = !*m.Images
	}
	if m.Refuses != nil {
		refuses := func(parameter string) bool { return slices.Contains(*m.Refuses, parameter) }
		t.traits.NoTemperature, t.traits.NoTopP = refuses("temperature"), refuses("top_p")
		t.traits.NoStreamOptions, t.traits.NoAssistantLast = refuses("stream_options"), refuses("assistant_last")
	}
	t.caps.NativeTools = !t.traits.TextTools
	t.price = t.priceOf(m)
	if t.window = t.context; t.window == 0 && t.genuine {
		b, _ := builtInFor(t.caps.Provider, t.caps.Model)
		t.window = b.context
	}
}

// matches reports whether a pattern, in which '*' stands for any characters, is that
// of a model.
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

// priceOf returns the price of the target's model, nil if it is unknown: what is
// built in, with the configured fields m in place of its own. Models on the user's
// own Ollama cost nothing, and neither do those that OpenRouter calls free.
func (t *target) priceOf(m config.Model) *ledger.Price {
	var p ledger.Price
	b, known := builtInFor(t.caps.Provider, t.caps.Model)
	local := t.caps.Provider == "ollama" && !strings.HasSuffix(t.caps.Model, "cloud") // Ollama's suffix for models that it passes on
	switch {
	case known && t.genuine:
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

// learn asks Ollama once for the capabilities of the target's model. If it does not
// answer, tools are sent as text and the server's own context size is used.
func (s *Service) learn(ctx context.Context, t *target) *target {
	if !t.unlearned {
		return t
	}
	learned := *t
	able, err := wire.OllamaModel(ctx, t.ep, t.caps.Model)
	if err != nil {
		s.log.Debug("cannot ask for the model's abilities", "model", t.caps.Model, "error", err)
	}
	learned.unlearned, learned.context, learned.traits.TextTools = err != nil, 0, err != nil || !able.Tools
	learned.traits.NoImages = err == nil && !able.Images
	s.adjust(&learned)
	if learned.context == 0 {
		learned.context, learned.window = able.Context, able.Context
	}
	s.replace(ctx, t, &learned)
	return &learned
}

// fallbacks are asked when the configured provider cannot answer. A request that
// names its own provider or model has no fallbacks.
func (s *Service) fallbacks(sel selector) (list []selector) {
	if sel != (selector{}) {
		return nil
	}
	for _, f := range s.set.fallback {
		if next := (selector{f.Provider, f.Model, true}); !slices.Contains(list, next) {
			list = append(list, next)
		}
	}
	return list
}
