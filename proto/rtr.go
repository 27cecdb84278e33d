package proto

// Methods of rtr, the router to language models.
var (
	// RtrCapabilities returns what the router is connected to, and the model that would
	// answer.
	RtrCapabilities = method[ModelSelector, RouterCapabilities]("rtr", "capabilities", "capabilities", public)
	// RtrInfer asks a model to continue a conversation. The error unavailable says
	// what to set if no model is available.
	// Text comes as chunks; with events: true packets of type reasoning and notice
	// come between them. The terminal packet has the usage, why the model stopped,
	// and the tools it asks for. The error budget names the limit that is reached
	// and when it is reset.
	RtrInfer = textMethod[Infer]("rtr", "infer", "response")
	// RtrHold gives the router the bytes of an attachment. It keeps 64 MiB of them, those
	// that were used last. An infer with an attachment that it does not have is the error
	// not_found, kind "attachment", with the ids in details, and nothing is sent to a
	// provider: give it these, and ask again.
	RtrHold = method[Hold, Empty]("rtr", "hold", "ok")
	// RtrEmbed asks a model for the vectors of texts. There is no fallback to another
	// model, since vectors of two models do not compare. An answer that cannot be used
	// is the error internal, kind parse.
	RtrEmbed = method[Embed, Embeddings]("rtr", "embed", "embeddings")
	// RtrUsage returns totals of the usage, and the state of the budgets.
	RtrUsage = method[UsageRequest, UsageReport]("rtr", "usage", "usage_report", public)
	// RtrModels lists the models of the connected providers.
	RtrModels = method[ModelsRequest, ModelList]("rtr", "models", "models", public)
	// RtrMaskHints returns what recognizes the keys of providers in texts, so that other
	// services can mask them and need not have them.
	RtrMaskHints = method[MaskHintsRequest, MaskHints]("rtr", "mask_hints", "mask_hints")
)

// ModelSelector names a model in place of the configured one, as infer does.
type ModelSelector struct {
	// Provider is a kind of provider; absent: the configured one.
	Provider string `json:"provider,omitzero"`
	// Model is a model of the provider; absent: the configured one.
	Model string `json:"model,omitzero"`
}

// RouterCapabilities are the capabilities of the router and of its model.
type RouterCapabilities struct {
	// Streaming is true if stream: true has an effect.
	Streaming bool `json:"streaming"`
	// Model is the configured model, or the one that was found.
	Model string `json:"model"`
	// ContextWindow is the size of the model's context in tokens; absent: unknown.
	ContextWindow int `json:"context_window,omitzero"`
	// Provider is the kind of provider: "anthropic", "openai" (OpenAI and
	// OpenAI-compatible endpoints), "gemini", "openrouter", "ollama", or "offline"
	// for none.
	Provider string `json:"provider,omitzero"`
	// NativeTools is true if the model is called with tools in the provider's own
	// form, false if they are described as text.
	NativeTools bool `json:"native_tools,omitzero"`
	// Endpoint is the provider's base URL without credentials.
	Endpoint string `json:"endpoint,omitzero"`
	// Found is true if the endpoint was not configured but found on this host.
	Found bool `json:"found,omitzero"`
	// Fallback is true if provider "auto" found no model and the offline provider
	// answers.
	Fallback bool `json:"fallback,omitzero"`
	// Problem says why no model is available, and what to set.
	Problem string `json:"problem,omitzero"`
}

// Infer is a conversation to continue.
type Infer struct {
	// Messages are the conversation in OpenAI's form, each {"role","content",…}. In a
	// content that is a list an element {"type":"attachment","id",…} is an Attachment:
	// see hold.
	Messages Raw `json:"messages"`
	// Temperature is the sampling temperature, 0 to 2.
	Temperature float64 `json:"temperature"`
	// TopP is the nucleus sampling parameter, above 0 to 1.
	TopP float64 `json:"top_p"`
	// Stream asks for chunks as they come. If streaming is off, the answer is
	// collected nevertheless.
	Stream bool `json:"stream"`
	// NeedModel makes it an error if provider "auto" found no model; absent: the
	// offline provider answers in its place.
	NeedModel bool `json:"need_model,omitzero"`
	// Tools are the functions that the model may call, each
	// {"type":"function","function":{"name","description","parameters"}}.
	// For a model without native tools they are described in the system prompt, and
	// it calls them with blocks in its text: see native_tools of capabilities.
	Tools Raw `json:"tools,omitzero"`
	// Provider replaces the configured one: a kind of provider as in capabilities.
	Provider string `json:"provider,omitzero"`
	// Model replaces the configured one: the identifier that the provider uses.
	Model string `json:"model,omitzero"`
	// MaxTokens limits the answer, in tokens; absent or 0: the configured limit,
	// else the provider's default.
	MaxTokens int `json:"max_tokens,omitzero"`
	// Effort is how much the model reasons: "off", "low", "medium", "high" or
	// "max", the highest level of the model; absent: the model's default. A model
	// that does not accept the level is asked without it, and a notice of the kind
	// warning says so.
	Effort string `json:"effort,omitzero"`
	// System is a system prompt before the messages.
	System string `json:"system,omitzero"`
	// SessionID is the session that the usage is counted for.
	SessionID string `json:"session_id,omitzero"`
	// NoSave is true if the session is not stored. It changes the advice in errors.
	NoSave bool `json:"no_save,omitzero"`
	// OnLimit is "stop" (the default) or "park". With park a pause of more than 30 s
	// that a provider asks for is not waited for: the answer is the error limit, or
	// budget, with the end of the pause in details, in RFC 3339, UTC.
	OnLimit string `json:"on_limit,omitzero"`
	// OutputSchema is a JSON Schema that the model is asked to answer by: in the
	// provider's own form where that is known to be accepted, else in the system
	// prompt. The answer is not checked.
	OutputSchema Raw `json:"output_schema,omitzero"`
	// Events asks for packets of type reasoning (a Reasoning) and notice (a Notice)
	// between the chunks. It implies stream.
	Events bool `json:"events,omitzero"`
}

// Streaming reports whether the caller asked for chunks.
func (i Infer) Streaming() bool { return i.Stream || i.Events }

// Reasoning is a piece of the model's reasoning, for callers that asked for
// events. Its packet has the type "reasoning".
type Reasoning struct {
	// Text is the piece.
	Text string `json:"text"`
}

// Usage is what a model's answer consumed. Every token is counted once.
type Usage struct {
	// InputTokens are the tokens of the prompt, including those from and to the
	// provider's cache.
	InputTokens int64 `json:"input_tokens"`
	// OutputTokens are the tokens of the answer, including its reasoning.
	OutputTokens int64 `json:"output_tokens"`
	// CacheReadTokens are the input tokens that came from the cache.
	CacheReadTokens int64 `json:"cache_read_tokens,omitzero"`
	// CacheWriteTokens are the input tokens that were written to the cache.
	CacheWriteTokens int64 `json:"cache_write_tokens,omitzero"`
	// ReasoningTokens are the output tokens of the reasoning.
	ReasoningTokens int64 `json:"reasoning_tokens,omitzero"`
	// CostUSD is the cost in US dollars, reported by the provider or computed from
	// known prices; absent: unknown.
	CostUSD *float64 `json:"cost_usd,omitzero"`
}

// Add adds what another answer consumed. The cost is the sum of the known ones.
func (u *Usage) Add(more Usage) {
	u.InputTokens += more.InputTokens
	u.OutputTokens += more.OutputTokens
	u.CacheReadTokens += more.CacheReadTokens
	u.CacheWriteTokens += more.CacheWriteTokens
	u.ReasoningTokens += more.ReasoningTokens
	if more.CostUSD != nil {
		cost := *more.CostUSD
		if u.CostUSD != nil {
			cost += *u.CostUSD
		}
		u.CostUSD = &cost
	}
}

// Hold is an attachment with its bytes.
type Hold struct {
	// ID is the id of the attachment.
	ID string `json:"id"`
	// MediaType is its kind. The content decides.
	MediaType string `json:"media_type,omitzero"`
	// Data is the content, in base64; absent: it is lost, and the next infer replaces it by
	// a text that says so.
	Data []byte `json:"data,omitzero"`
}

// Embed are texts to embed.
type Embed struct {
	// Texts are 1 to 64 texts of 1 to 8,000 characters.
	Texts []string `json:"texts"`
	// Provider is a kind of provider as in capabilities; absent: the configured one.
	Provider string `json:"provider,omitzero"`
	// Model is a model for embeddings: the identifier that the provider uses.
	Model string `json:"model"`
	// SessionID is the session that the usage is counted for.
	SessionID string `json:"session_id,omitzero"`
}

// Embeddings are the vectors of texts.
type Embeddings struct {
	// Provider is the kind of provider that answered.
	Provider string `json:"provider"`
	// Model is the model that answered.
	Model string `json:"model"`
	// Dimensions is the number of numbers in each vector.
	Dimensions int `json:"dimensions"`
	// Vectors are the vectors of the length 1, in the order of the texts: each the
	// base64 of 32-bit floating-point numbers, little endian.
	Vectors []string `json:"vectors"`
	// Usage is what the texts consumed; absent: unknown.
	Usage *Usage `json:"usage,omitzero"`
}

// MaskHintsRequest asks for hints.
type MaskHintsRequest struct{}

// MaskHints recognize secret values in texts. They are for services that mask texts:
// nothing but an equal text can be found with them.
type MaskHints struct {
	// Base is the odd base of the rolling hash, 16 hexadecimal digits.
	Base string `json:"base"`
	// Salt is the salt of the SHA-256, in base64.
	Salt string `json:"salt"`
	// Values are the hints: one for each encoding of each secret of at least 16 bytes.
	Values []MaskHint `json:"values"`
}

// Masking is what the services of a constellation mask secrets with, besides their
// shapes and the configured values. The daemon sends it.
type Masking struct {
	// Salt is the key of placeholders, 32 bytes in Base64: the same secret has the same
	// placeholder everywhere.
	Salt string `json:"salt"`
	// Hints recognize the keys of providers.
	Hints MaskHints `json:"hints"`
}

// MaskHint recognizes one encoding of a secret.
type MaskHint struct {
	// Length is the length in bytes, 16 to 8192.
	Length int `json:"length"`
	// Tail is the Rabin-Karp value modulo 2^64 of the last 16 bytes, 16 hexadecimal
	// digits.
	Tail string `json:"tail"`
	// SHA256 is the SHA-256 of the salt and the text, in hexadecimal digits.
	SHA256 string `json:"sha256"`
}

// UsageRequest selects what is totalled.
type UsageRequest struct {
	// By is what a row is for: "day" (the default), "model" or "session".
	By string `json:"by,omitzero"`
	// Since is the first local day, as YYYY-MM-DD; absent: the first recorded one.
	Since string `json:"since,omitzero"`
	// SessionID selects one session.
	SessionID string `json:"session_id,omitzero"`
}

// UsageReport has the totals.
type UsageReport struct {
	// Rows are the totals: days and sessions newest first, models by tokens.
	Rows []UsageRow `json:"rows"`
	// Total is the sum of the rows; its key is "total".
	Total UsageRow `json:"total"`
	// Budgets are the configured limits.
	Budgets []BudgetState `json:"budgets"`
	// PricesOf is the date, as YYYY-MM-DD, of the built-in prices that costs were
	// estimated with; absent: all prices were configured, or the providers reported
	// the costs.
	PricesOf string `json:"prices_of,omitzero"`
}

// UsageRow is the total of one day, model or session.
type UsageRow struct {
	// Key is the day as YYYY-MM-DD, "provider/model", or the session's id, "-"
	// for requests without one.
	Key string `json:"key"`
	// Requests counts the requests to providers.
	Requests int64 `json:"requests"`
	// Usage is the total. Its cost is that of requests with known costs, absent if
	// there are none.
	Usage Usage `json:"usage"`
	// Unpriced counts the requests whose cost is unknown.
	Unpriced int64 `json:"unpriced,omitzero"`
}

// BudgetState is the state of one limit.
type BudgetState struct {
	// Name is the limit's key: usd_per_day, tokens_per_day, usd_per_session or
	// tokens_per_session.
	Name string `json:"name"`
	// Limit is in US dollars or tokens, as the name says; so are spent and
	// reserved.
	Limit float64 `json:"limit"`
	// Spent is what was used of the limit.
	Spent float64 `json:"spent"`
	// Reserved is what requests in progress may still use, and requests whose end is
	// unknown may have used.
	Reserved float64 `json:"reserved"`
	// Ends is when the limit is reset, in RFC 3339; absent for that of a session.
	Ends string `json:"ends,omitzero"`
}

// ModelsRequest selects a provider.
type ModelsRequest struct {
	// Provider is a kind of provider as in capabilities; absent: all connected ones,
	// the configured one first.
	Provider string `json:"provider,omitzero"`
}

// ModelList lists available models.
type ModelList struct {
	// Models are in the order of their providers.
	Models []Model `json:"models"`
	// Problems are the reasons why models of further providers are missing, a line
	// each.
	Problems []string `json:"problems,omitzero"`
}

// Model is a model of a provider.
type Model struct {
	// Name is the model's identifier there.
	Name string `json:"name"`
	// Provider is the kind of provider.
	Provider string `json:"provider"`
	// Context is the size of the model's context in tokens; absent: unknown.
	Context int `json:"context,omitzero"`
	// Efforts are the levels of reasoning effort that it accepts.
	Efforts []string `json:"efforts,omitzero"`
}
