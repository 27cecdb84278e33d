package proto

// Methods of rtr, the router to language models.
var (
	// RtrCapabilities asks what the router is connected to.
	RtrCapabilities = method[CapabilitiesRequest, RouterCapabilities]("rtr", "capabilities", "capabilities", public)
	// RtrInfer has the model continue a conversation. The error unavailable says
	// what to set where no model can be asked.
	// Text comes as chunks; with events also as packets of type reasoning and
	// notice between them. The terminal packet tells the usage, why the model
	// stopped, and what tools it asks for. The error budget names the limit that
	// is reached and when it ends.
	RtrInfer = textMethod[Infer]("rtr", "infer", "response")
	// RtrUsage sums what was used, and says what is left of the budgets.
	RtrUsage = method[UsageRequest, UsageReport]("rtr", "usage", "usage_report", public)
	// RtrModels lists the models that the connected providers have.
	RtrModels = method[ModelsRequest, ModelList]("rtr", "models", "models", public)
)

// CapabilitiesRequest has no fields.
type CapabilitiesRequest struct{}

// RouterCapabilities says what the router can do and which model answers.
type RouterCapabilities struct {
	// Streaming is true if stream: true is honoured.
	Streaming bool `json:"streaming"`
	// Model is the configured model, or the one that was found.
	Model string `json:"model"`
	// Provider is the kind of provider: "anthropic", "openai" (OpenAI and any
	// OpenAI-compatible endpoint), "gemini", "openrouter", "ollama", or
	// "offline" for none.
	Provider string `json:"provider,omitzero"`
	// NativeTools is true if the model is called with tools in the provider's
	// own form; false where tools go as text.
	NativeTools bool `json:"native_tools,omitzero"`
	// Endpoint is the provider's base URL without credentials.
	Endpoint string `json:"endpoint,omitzero"`
	// Found is true if the endpoint was not configured but found answering on
	// this host.
	Found bool `json:"found,omitzero"`
	// Fallback is true if provider "auto" found no model, so that the offline
	// provider answers.
	Fallback bool `json:"fallback,omitzero"`
	// Problem says why no model can be asked, and what to set.
	Problem string `json:"problem,omitzero"`
}

// Infer is a conversation to be continued.
type Infer struct {
	// Messages are the conversation in OpenAI's form, each {"role","content",…}.
	Messages Raw `json:"messages"`
	// Temperature is the sampling temperature, 0 to 2.
	Temperature float64 `json:"temperature"`
	// TopP is the nucleus sampling parameter, above 0 to 1.
	TopP float64 `json:"top_p"`
	// Stream asks for chunks as they come. Where streaming is off the answer
	// is collected all the same.
	Stream bool `json:"stream"`
	// NeedModel makes it an error if provider "auto" found no model and the
	// offline provider would answer in its place.
	NeedModel bool `json:"need_model,omitzero"`
	// Tools are the functions that the model may call, each
	// {"type":"function","function":{"name","description","parameters"}}.
	// To a model without native tools they are described in the system prompt,
	// and it calls them by blocks in its text: see native_tools of capabilities.
	Tools Raw `json:"tools,omitzero"`
	// Provider and Model are asked in place of the configured ones: a kind of
	// provider as in capabilities, and the model's identifier there.
	Provider string `json:"provider,omitzero"`
	// Model is the model's identifier.
	Model string `json:"model,omitzero"`
	// MaxTokens limits the answer, in tokens; absent or 0: the configured limit,
	// else the provider's default.
	MaxTokens int `json:"max_tokens,omitzero"`
	// Effort is how much the model reasons: "off", "low", "medium", "high" or
	// "max", the highest level of the model. Absent: as the model does by itself.
	// A model that does not take the level is asked without it, and a notice of
	// the kind warning says so.
	Effort string `json:"effort,omitzero"`
	// System is a system prompt in front of the messages.
	System string `json:"system,omitzero"`
	// SessionID is the session that the usage is counted for.
	SessionID string `json:"session_id,omitzero"`
	// NoSave says that the session is not stored, for what errors advise.
	NoSave bool `json:"no_save,omitzero"`
	// Events asks for packets of type reasoning (text of the model's reasoning:
	// {"text"}) and notice (a Notice) between the chunks. It implies stream.
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

// Usage is what a model's answer took. Every token is counted once.
type Usage struct {
	// InputTokens are the tokens of the prompt, those from and to the
	// provider's cache included.
	InputTokens int64 `json:"input_tokens"`
	// OutputTokens are the tokens of the answer, its reasoning included.
	OutputTokens int64 `json:"output_tokens"`
	// CacheReadTokens are the input tokens that came from the cache.
	CacheReadTokens int64 `json:"cache_read_tokens,omitzero"`
	// CacheWriteTokens are the input tokens that were written to the cache.
	CacheWriteTokens int64 `json:"cache_write_tokens,omitzero"`
	// ReasoningTokens are the output tokens of the reasoning.
	ReasoningTokens int64 `json:"reasoning_tokens,omitzero"`
	// CostUSD is the cost in US dollars, told by the provider or computed from
	// the known prices. Absent: unknown.
	CostUSD *float64 `json:"cost_usd,omitzero"`
}

// UsageRequest chooses what is summed.
type UsageRequest struct {
	// By is what rows are for: "day" (the default), "model" or "session".
	By string `json:"by,omitzero"`
	// Since is the first local day, as YYYY-MM-DD. Absent: all there is.
	Since string `json:"since,omitzero"`
	// SessionID restricts the sums to one session.
	SessionID string `json:"session_id,omitzero"`
}

// UsageReport is what was used.
type UsageReport struct {
	// Rows are the sums: days and sessions newest first, models by tokens.
	Rows []UsageRow `json:"rows"`
	// Total is the sum of the rows; its key is "total".
	Total UsageRow `json:"total"`
	// Budgets are the configured limits.
	Budgets []BudgetState `json:"budgets"`
	// PricesOf is the date, as YYYY-MM-DD, of the built-in prices that costs in
	// the sums were estimated with. Absent: all prices were configured, or the
	// providers reported the costs.
	PricesOf string `json:"prices_of,omitzero"`
}

// UsageRow is the sum for one day, model or session.
type UsageRow struct {
	// Key is the day as YYYY-MM-DD, "provider/model", or the session's id, "-"
	// for requests without one.
	Key string `json:"key"`
	// Requests counts the requests to providers.
	Requests int64 `json:"requests"`
	// Usage is the sum. Its cost is the sum of the known ones, absent if none
	// is known.
	Usage Usage `json:"usage"`
	// Unpriced counts the requests whose cost is unknown.
	Unpriced int64 `json:"unpriced,omitzero"`
}

// BudgetState is one limit and where it stands.
type BudgetState struct {
	// Name is the limit's key: usd_per_day, tokens_per_day, usd_per_session or
	// tokens_per_session.
	Name string `json:"name"`
	// Limit, Spent and Reserved are in US dollars or tokens, as Name says.
	// Reserved is for requests under way, and for those whose end nobody saw.
	Limit float64 `json:"limit"`
	// Spent is what was used of the limit.
	Spent float64 `json:"spent"`
	// Reserved is what requests under way may still use.
	Reserved float64 `json:"reserved"`
	// Ends is when the limit starts anew, in RFC 3339; absent for a session's.
	Ends string `json:"ends,omitzero"`
}

// ModelsRequest chooses whose models are listed.
type ModelsRequest struct {
	// Provider is a kind of provider as in capabilities. Absent: all that are
	// connected, the configured one first.
	Provider string `json:"provider,omitzero"`
}

// ModelList is what can be asked.
type ModelList struct {
	// Models are in the order of their providers.
	Models []Model `json:"models"`
	// Problems says why the models of further providers are missing, a line each.
	Problems []string `json:"problems,omitzero"`
}

// Model is a model that a provider has.
type Model struct {
	// Name is the model's identifier there.
	Name string `json:"name"`
	// Provider is the kind of provider.
	Provider string `json:"provider"`
	// Context is how many tokens the model holds; absent: unknown.
	Context int `json:"context,omitzero"`
	// Efforts are the levels of reasoning effort that it takes.
	Efforts []string `json:"efforts,omitzero"`
}
