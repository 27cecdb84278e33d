package proto

// Methods of mem, which keeps what must last.
var (
	// MemGetHistory asks for a channel's history. A channel that is not known
	// has an empty one. A history that does not fit into one packet is the error
	// too_large: ask with a limit.
	MemGetHistory = method[GetHistory, History]("mem", "get_history", "history")
	// MemAppendHistory adds messages to a channel's history. It is answered
	// when they are on disk. If one of them is not valid nothing is stored.
	MemAppendHistory = method[AppendHistory, Empty]("mem", "append_history", "ok")
	// MemClearHistory deletes a channel's history, if there is one.
	MemClearHistory = method[ClearHistory, Empty]("mem", "clear_history", "ok")
	// MemSearchHard finds the hard memories nearest to a query. A query without
	// words finds none.
	MemSearchHard = method[SearchHard, HardMemories]("mem", "search_hard", "hard_memories")
	// MemStoreHard stores a hard memory. An exact duplicate of a stored one
	// returns the first one's id.
	MemStoreHard = method[StoreHard, Stored]("mem", "store_hard", "ok")
	// MemGetSoft asks for the soft memory.
	MemGetSoft = method[GetSoft, SoftMemory]("mem", "get_soft", "soft_memory")
	// MemSetSoft replaces the soft memory.
	MemSetSoft = method[SetSoft, Empty]("mem", "set_soft", "ok")
)

// GetHistory names a channel.
type GetHistory struct {
	// ChannelID is the channel, any text; without it the answer is an error.
	ChannelID string `json:"channel_id,omitzero"`
	// Limit asks for the last N messages only; zero or less: for all.
	Limit int `json:"limit,omitzero"`
}

// History is a list of stored messages.
type History struct {
	// Messages are the messages as they were stored, extra keys included.
	Messages Raw `json:"messages"`
}

// AppendHistory carries messages for a channel.
type AppendHistory struct {
	// ChannelID is the channel, any text; without it the answer is an error.
	ChannelID string `json:"channel_id,omitzero"`
	// Messages are objects with a string role and a string content; other keys
	// are kept.
	Messages Raw `json:"messages,omitzero"`
}

// ClearHistory names a channel.
type ClearHistory struct {
	// ChannelID is the channel, any text; without it the answer is an error.
	ChannelID string `json:"channel_id,omitzero"`
}

// SearchHard is a query.
type SearchHard struct {
	// Query is plain text.
	Query string `json:"query"`
	// TopK is the number of results wanted, 3 if absent; zero or less gives none.
	TopK *int `json:"top_k,omitzero"`
}

// HardMemories are search results, best first.
type HardMemories struct {
	// Results are the memories with a score above 0, best first; ties stand most
	// recent first.
	Results []HardMemory `json:"results"`
}

// HardMemory is one search result.
type HardMemory struct {
	// Messages are the messages as they were stored.
	Messages Raw `json:"messages"`
	// Score is the cosine similarity, above 0 to 1, rounded to 4 digits.
	Score float64 `json:"score"`
}

// StoreHard is a memory to store.
type StoreHard struct {
	// Messages are objects with a string role and a string content.
	Messages Raw `json:"messages"`
	// Tag is a text that is searched like the messages' contents.
	Tag string `json:"tag,omitzero"`
}

// Stored names a stored memory.
type Stored struct {
	// ID is the memory's position in the order of storing, from 0.
	ID int `json:"id"`
}

// GetSoft has no fields.
type GetSoft struct{}

// SoftMemory is the soft memory.
type SoftMemory struct {
	// Content is the text.
	Content string `json:"content"`
}

// SetSoft carries a new soft memory.
type SetSoft struct {
	// Content is the text, kept byte for byte; absent or empty clears it.
	Content string `json:"content,omitzero"`
}
