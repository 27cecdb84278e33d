package proto

// Methods of rtr, the router to language models.
var (
	// RtrCapabilities asks what the router is connected to.
	RtrCapabilities = method[CapabilitiesRequest, RouterCapabilities]("rtr", "capabilities", "capabilities")
	// RtrInfer has the model continue a conversation. The error unavailable says
	// what to set where no model can be asked.
	RtrInfer = textMethod[Infer]("rtr", "infer", "response")
)

// CapabilitiesRequest has no fields.
type CapabilitiesRequest struct{}

// RouterCapabilities says what the router can do and which model answers.
type RouterCapabilities struct {
	// Streaming is true if stream: true is honoured.
	Streaming bool `json:"streaming"`
	// Model is the configured model, or the one that was found.
	Model string `json:"model"`
	// Provider is the kind of provider: "openai" for any OpenAI-compatible
	// endpoint, "offline" for none.
	Provider string `json:"provider,omitzero"`
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
}

// Streaming reports whether the caller asked for chunks.
func (i Infer) Streaming() bool { return i.Stream }
