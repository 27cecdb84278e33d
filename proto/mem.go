package proto

// Methods of mem, which keeps what must last.
var (
	// MemGetHistory asks for a channel's history. A channel that is not known
	// has an empty one. A history that does not fit into one packet is the error
	// too_large: ask with a limit.
	MemGetHistory = method[GetHistory, History]("mem", "get_history", "history", public)
	// MemAppendHistory adds messages to a channel's history. It is answered
	// when they are on disk. If one of them is not valid nothing is stored.
	MemAppendHistory = method[AppendHistory, Empty]("mem", "append_history", "ok", public)
	// MemClearHistory deletes a channel's history, if there is one.
	MemClearHistory = method[ClearHistory, Empty]("mem", "clear_history", "ok", public)
	// MemSearchHard finds the hard memories nearest to a query. A query without
	// words finds none.
	MemSearchHard = method[SearchHard, HardMemories]("mem", "search_hard", "hard_memories", public)
	// MemStoreHard stores a hard memory. An exact duplicate of a stored one
	// returns the first one's id.
	MemStoreHard = method[StoreHard, Stored]("mem", "store_hard", "ok", public)
	// MemListHard lists hard memories, newest first, in pages.
	MemListHard = method[ListHard, HardList]("mem", "list_hard", "hard_list", public)
	// MemGetHard asks for one hard memory.
	MemGetHard = method[GetHard, HardItem]("mem", "get_hard", "hard_memory", public)
	// MemUpdateHard replaces what a hard memory says or its tag. Its id and
	// where it came from stay. The error invalid refuses what another memory
	// says already.
	MemUpdateHard = method[UpdateHard, Empty]("mem", "update_hard", "ok", public)
	// MemDeleteHard deletes a hard memory. Its place stays empty: no other
	// memory gets its id.
	MemDeleteHard = method[DeleteHard, Empty]("mem", "delete_hard", "ok", public)
	// MemListChannels lists the channels that have a history, the one that was
	// written to last first.
	MemListChannels = method[ListChannels, Channels]("mem", "list_channels", "channels", public)
	// MemGetSoft asks for the soft memory.
	MemGetSoft = method[GetSoft, SoftMemory]("mem", "get_soft", "soft_memory", public)
	// MemSetSoft replaces the soft memory.
	MemSetSoft = method[SetSoft, Empty]("mem", "set_soft", "ok", public)
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
	// Tag restricts to memories with just this tag.
	Tag string `json:"tag,omitzero"`
	// ChannelID restricts to memories that come from this channel.
	ChannelID string `json:"channel_id,omitzero"`
	// Since restricts to memories stored at or after this time, in RFC 3339 or
	// as YYYY-MM-DD (local).
	Since string `json:"since,omitzero"`
	// Until restricts to memories stored before this time, in the same forms.
	Until string `json:"until,omitzero"`
	// MinScore leaves out results with a lower score, 0 to 1.
	MinScore float64 `json:"min_score,omitzero"`
	// Explain asks which words made the score.
	Explain bool `json:"explain,omitzero"`
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
	// ID is the memory's id.
	ID *int `json:"id,omitzero"`
	// Tag is the memory's tag.
	Tag string `json:"tag,omitzero"`
	// Words are the words of the query that made the score, those with the
	// largest share first, if explain was asked for.
	Words []WordShare `json:"words,omitzero"`
}

// WordShare is a word's share of a score.
type WordShare struct {
	// Word is the word as it stands in the query.
	Word string `json:"word"`
	// Share is its part of the score; the shares sum up to the score.
	Share float64 `json:"share"`
}

// StoreHard is a memory to store.
type StoreHard struct {
	// Messages are objects with a string role and a string content.
	Messages Raw `json:"messages"`
	// Tag is a text that is searched like the messages' contents.
	Tag string `json:"tag,omitzero"`
	// ChannelID is the channel that the memory comes from.
	ChannelID string `json:"channel_id,omitzero"`
	// SessionID is the session that the memory comes from.
	SessionID string `json:"session_id,omitzero"`
	// Created is when it was stored first, in RFC 3339, for a memory that was
	// exported; absent: now.
	Created string `json:"created,omitzero"`
}

// Stored names a stored memory.
type Stored struct {
	// ID is the memory's position in the order of storing, from 0.
	ID int `json:"id"`
}

// ListHard chooses hard memories.
type ListHard struct {
	// Tag restricts to memories with just this tag.
	Tag string `json:"tag,omitzero"`
	// ChannelID restricts to memories that come from this channel.
	ChannelID string `json:"channel_id,omitzero"`
	// Since restricts to memories stored at or after this time, in RFC 3339 or
	// as YYYY-MM-DD (local).
	Since string `json:"since,omitzero"`
	// Until restricts to memories stored before this time, in the same forms.
	Until string `json:"until,omitzero"`
	// Before asks for memories with lower ids: the next of the page before.
	Before *int `json:"before,omitzero"`
	// Limit is the number wanted, 100 if absent or zero, 1000 at most.
	Limit int `json:"limit,omitzero"`
}

// HardList is a page of hard memories.
type HardList struct {
	// Items are the memories, the newest first.
	Items []HardItem `json:"items"`
	// Next is what before is set to for the next page; absent at the end.
	Next *int `json:"next,omitzero"`
}

// HardItem is a hard memory.
type HardItem struct {
	// ID is the memory's position in the order of storing, from 0.
	ID int `json:"id"`
	// Messages are the messages as they were stored.
	Messages Raw `json:"messages"`
	// Tag is the memory's tag.
	Tag string `json:"tag,omitzero"`
	// ChannelID is the channel that it comes from.
	ChannelID string `json:"channel_id,omitzero"`
	// SessionID is the session that it comes from.
	SessionID string `json:"session_id,omitzero"`
	// Created is when it was stored, in RFC 3339; absent if that is not known.
	Created string `json:"created,omitzero"`
}

// GetHard names a hard memory.
type GetHard struct {
	// ID is the memory's id.
	ID int `json:"id"`
}

// UpdateHard changes a hard memory.
type UpdateHard struct {
	// ID is the memory's id.
	ID int `json:"id"`
	// Messages replace those that it has; absent: they stay.
	Messages Raw `json:"messages,omitzero"`
	// Tag replaces the tag; absent: it stays; empty: none.
	Tag *string `json:"tag,omitzero"`
}

// DeleteHard names a hard memory.
type DeleteHard struct {
	// ID is the memory's id.
	ID int `json:"id"`
}

// ListChannels has no fields.
type ListChannels struct{}

// Channels are the channels that have a history.
type Channels struct {
	// Channels are the channels, the one that was written to last first.
	Channels []Channel `json:"channels"`
}

// Channel is a channel with a history.
type Channel struct {
	// ChannelID is the channel.
	ChannelID string `json:"channel_id"`
	// Bytes is the size of its file.
	Bytes int64 `json:"bytes"`
	// Updated is when it was last written to, in RFC 3339.
	Updated string `json:"updated"`
}

// GetSoft has no fields.
type GetSoft struct{}

// SoftMemory is the soft memory.
type SoftMemory struct {
	// Content is the text.
	Content string `json:"content"`
	// Set is true if there is one, be it an empty one: it was stored, or
	// cleared, at some time. Absent, too, from a mem that does not tell.
	Set bool `json:"set,omitzero"`
}

// SetSoft carries a new soft memory.
type SetSoft struct {
	// Content is the text, kept byte for byte; absent or empty clears it.
	Content string `json:"content,omitzero"`
}
