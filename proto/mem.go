package proto

// Methods of mem, which stores histories and memories.
var (
	// MemGetHistory returns a channel's history. That of an unknown channel is
	// empty. A history that does not fit into one packet is the error too_large:
	// ask with a limit.
	MemGetHistory = method[GetHistory, History]("mem", "get_history", "history", public)
	// MemAppendHistory adds messages to a channel's history. The answer comes when
	// they are on disk. If one of them is invalid, nothing is stored.
	MemAppendHistory = method[AppendHistory, Empty]("mem", "append_history", "ok", public)
	// MemClearHistory deletes a channel's history. A missing one is not an error.
	MemClearHistory = method[ClearHistory, Empty]("mem", "clear_history", "ok", public)
	// MemSearchHard finds the hard memories nearest to a query. A query without
	// words finds none.
	MemSearchHard = method[SearchHard, HardMemories]("mem", "search_hard", "hard_memories", public)
	// MemStoreHard stores a hard memory, or proposes it. An exact duplicate of a
	// stored one returns the first one's id.
	MemStoreHard = method[StoreHard, Stored]("mem", "store_hard", "ok", public)
	// MemListHard lists hard memories, newest first, in pages.
	MemListHard = method[ListHard, HardList]("mem", "list_hard", "hard_list", public)
	// MemGetHard asks for one hard memory.
	MemGetHard = method[GetHard, HardItem]("mem", "get_hard", "hard_memory", public)
	// MemUpdateHard replaces the messages or the tag of a hard memory. Its id and
	// its origin stay. A duplicate of another memory is the error invalid.
	MemUpdateHard = method[UpdateHard, Empty]("mem", "update_hard", "ok", public)
	// MemDeleteHard deletes a hard memory. Its id is not used again.
	MemDeleteHard = method[DeleteHard, Empty]("mem", "delete_hard", "ok", public)
	// MemListProposals lists the memories that were proposed and are not decided yet,
	// oldest first, in pages. A proposal expires after 90 days.
	MemListProposals = method[ListProposals, Proposals]("mem", "list_proposals", "proposals", public)
	// MemAcceptProposal stores a proposed memory and removes the proposal. The answer
	// names the memory. An unknown proposal, also one that was decided or has
	// expired, is the error not_found.
	MemAcceptProposal = method[AcceptProposal, Stored]("mem", "accept_proposal", "ok", public)
	// MemRejectProposal removes a proposal. An unknown one is the error not_found.
	MemRejectProposal = method[RejectProposal, Empty]("mem", "reject_proposal", "ok", public)
	// MemEmbedHard asks the model of [mem] embed for the vectors of the hard memories
	// that have none, the newest first. What was received before an error is kept. The
	// error unavailable: no model is configured.
	MemEmbedHard = method[EmbedHard, EmbeddedHard]("mem", "embed_hard", "embedded_hard", public)
	// MemListChannels lists the channels that have a history, the one that changed
	// last first.
	MemListChannels = method[ListChannels, Channels]("mem", "list_channels", "channels", public)
	// MemGetSoft returns the soft memory.
	MemGetSoft = method[GetSoft, SoftMemory]("mem", "get_soft", "soft_memory", public)
	// MemSetSoft replaces the soft memory.
	MemSetSoft = method[SetSoft, Empty]("mem", "set_soft", "ok", public)
)

// GetHistory names a channel.
type GetHistory struct {
	// ChannelID is the channel, any text. An empty one is an error.
	ChannelID string `json:"channel_id,omitzero"`
	// Limit is the number of messages wanted, the last ones; 0 or less: all.
	Limit int `json:"limit,omitzero"`
}

// History is a list of stored messages.
type History struct {
	// Messages are the messages as stored, with all keys.
	Messages Raw `json:"messages"`
}

// AppendHistory carries messages for a channel.
type AppendHistory struct {
	// ChannelID is the channel, any text. An empty one is an error.
	ChannelID string `json:"channel_id,omitzero"`
	// Messages are objects with a string role and a string content; other keys
	// are kept.
	Messages Raw `json:"messages,omitzero"`
}

// ClearHistory names a channel.
type ClearHistory struct {
	// ChannelID is the channel, any text. An empty one is an error.
	ChannelID string `json:"channel_id,omitzero"`
}

// SearchHard is a query.
type SearchHard struct {
	// Query is plain text.
	Query string `json:"query"`
	// TopK is the number of results wanted; absent: 3; 0 or less: none.
	TopK *int `json:"top_k,omitzero"`
	// Tag selects memories with this tag.
	Tag string `json:"tag,omitzero"`
	// ChannelID selects memories from this channel.
	ChannelID string `json:"channel_id,omitzero"`
	// Since selects memories stored at or after this time, in RFC 3339 or as
	// YYYY-MM-DD (local).
	Since string `json:"since,omitzero"`
	// Until selects memories stored before this time, in the same forms.
	Until string `json:"until,omitzero"`
	// MinScore is the lowest score of a result, 0 to 1.
	MinScore float64 `json:"min_score,omitzero"`
	// Explain asks for the words that the score consists of.
	Explain bool `json:"explain,omitzero"`
	// Embed false ranks by words alone, also where [mem] embed names a model.
	Embed *bool `json:"embed,omitzero"`
}

// HardMemories are search results, best first.
type HardMemories struct {
	// Results are the memories with a score above 0, best first, of equal ones the
	// most recent first.
	Results []HardMemory `json:"results"`
	// Notice says why the memories are ranked by words alone, where [mem] embed names a
	// model.
	Notice string `json:"notice,omitzero"`
}

// HardMemory is one search result.
type HardMemory struct {
	// Messages are the messages as stored.
	Messages Raw `json:"messages"`
	// Score is the part of the query that the memory covers, words weighed by their
	// rarity, above 0 and below 1; 1 would be every word, many times. If vectors were
	// used (see lexical and vector), it merges the ranks of both instead, and 1 is the
	// first of both. It is rounded to 4 digits. Scores of different queries do not
	// compare.
	Score float64 `json:"score"`
	// ID is the memory's id.
	ID *int `json:"id,omitzero"`
	// Tag is the memory's tag.
	Tag string `json:"tag,omitzero"`
	// Words are the words of the query that the score consists of, those with the
	// largest share first, if the request has explain: true.
	Words []WordShare `json:"words,omitzero"`
	// Lexical is the score by words, and Vector the cosine with the query, if vectors
	// were used. Absent: the memory is not among the first 100 by words, or has no
	// vector.
	Lexical *float64 `json:"lexical,omitzero"`
	// Vector: see Lexical.
	Vector *float64 `json:"vector,omitzero"`
}

// WordShare is a word's share of a score.
type WordShare struct {
	// Word is the word as in the query.
	Word string `json:"word"`
	// Share is its part of the score by words, which is lexical if that is present.
	// The shares add up to it.
	Share float64 `json:"share"`
	// As is the word stem that was found instead, if no memory has that of the word.
	As string `json:"as,omitzero"`
}

// StoreHard is a memory to store.
type StoreHard struct {
	// Messages are objects with a string role and a string content.
	Messages Raw `json:"messages"`
	// Tag is a text that is searched like the contents of the messages.
	Tag string `json:"tag,omitzero"`
	// ChannelID is the channel that the memory comes from.
	ChannelID string `json:"channel_id,omitzero"`
	// SessionID is the session that the memory comes from.
	SessionID string `json:"session_id,omitzero"`
	// Created is when an exported memory was first stored, in RFC 3339; absent:
	// now.
	Created string `json:"created,omitzero"`
	// Proposed keeps the memory as a proposal, which a person accepts or rejects.
	// No search finds it before. An exact duplicate of a proposal, or of a stored
	// memory if it replaces none, returns the first one's id.
	Proposed bool `json:"proposed,omitzero"`
	// Replaces is the id of a memory that this one replaces, of a proposal as soon
	// as it is accepted: searches do not find the old one any more. If it was
	// replaced before, the memory that replaced it is replaced. An unknown id is the
	// error not_found.
	Replaces *int `json:"replaces,omitzero"`
	// ReplacedBy stores an exported memory that was replaced, which no search finds:
	// the id of the memory that replaced it, -1 if that is not stored (yet).
	ReplacedBy *int `json:"replaced_by,omitzero"`
}

// Stored names a stored memory.
type Stored struct {
	// ID is the memory's number in the order of storing, from 0; that of the
	// proposal if proposed is true.
	ID int `json:"id"`
	// Proposed is true if the memory was proposed and not stored.
	Proposed bool `json:"proposed,omitzero"`
}

// ListHard chooses hard memories.
type ListHard struct {
	// Tag selects memories with this tag.
	Tag string `json:"tag,omitzero"`
	// ChannelID selects memories from this channel.
	ChannelID string `json:"channel_id,omitzero"`
	// Since selects memories stored at or after this time, in RFC 3339 or as
	// YYYY-MM-DD (local).
	Since string `json:"since,omitzero"`
	// Until selects memories stored before this time, in the same forms.
	Until string `json:"until,omitzero"`
	// Before selects memories with lower ids: the next of the page before.
	Before *int `json:"before,omitzero"`
	// Limit is the number wanted, at most 1000; absent or 0: 100.
	Limit int `json:"limit,omitzero"`
}

// HardList is a page of hard memories.
type HardList struct {
	// Items are the memories, the newest first.
	Items []HardItem `json:"items"`
	// Next is the before of the next page; absent at the end.
	Next *int `json:"next,omitzero"`
}

// HardItem is a hard memory.
type HardItem struct {
	// ID is the memory's number in the order of storing, from 0.
	ID int `json:"id"`
	// Messages are the messages as stored.
	Messages Raw `json:"messages"`
	// Tag is the memory's tag.
	Tag string `json:"tag,omitzero"`
	// ChannelID is the channel of its origin.
	ChannelID string `json:"channel_id,omitzero"`
	// SessionID is the session of its origin.
	SessionID string `json:"session_id,omitzero"`
	// Created is when it was stored, in RFC 3339; absent: unknown.
	Created string `json:"created,omitzero"`
	// ReplacedBy is the id of the memory that replaced this one, which no search
	// finds any more; -1: unknown.
	ReplacedBy *int `json:"replaced_by,omitzero"`
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
	// Messages replaces the messages; absent: they stay.
	Messages Raw `json:"messages,omitzero"`
	// Tag replaces the tag; absent: it stays; empty: none.
	Tag *string `json:"tag,omitzero"`
}

// DeleteHard names a hard memory.
type DeleteHard struct {
	// ID is the memory's id.
	ID int `json:"id"`
}

// ListProposals chooses proposals.
type ListProposals struct {
	// After selects proposals with higher ids: the next of the page before.
	After int `json:"after,omitzero"`
}

// Proposals is a page of proposals.
type Proposals struct {
	// Items are the proposals, the oldest first.
	Items []Proposal `json:"items"`
	// Next is the after of the next page; absent at the end.
	Next *int `json:"next,omitzero"`
}

// Proposal is a proposed memory.
type Proposal struct {
	// ID is the proposal's number, from 1. It is not the id of a memory.
	ID int `json:"id"`
	// Messages are the messages as proposed.
	Messages Raw `json:"messages"`
	// Tag is the memory's tag.
	Tag string `json:"tag,omitzero"`
	// ChannelID is the channel of its origin.
	ChannelID string `json:"channel_id,omitzero"`
	// SessionID is the session of its origin.
	SessionID string `json:"session_id,omitzero"`
	// Created is when it was proposed, in RFC 3339; absent: unknown.
	Created string `json:"created,omitzero"`
	// Replaces is the memory that would be replaced, absent if it replaces none.
	Replaces *HardItem `json:"replaces,omitzero"`
}

// AcceptProposal names a proposal.
type AcceptProposal struct {
	// ID is the proposal's id.
	ID int `json:"id"`
	// Messages replaces the messages as the proposal is accepted; absent: they stay.
	Messages Raw `json:"messages,omitzero"`
	// Tag replaces the tag; absent: it stays; empty: none.
	Tag *string `json:"tag,omitzero"`
}

// RejectProposal names a proposal.
type RejectProposal struct {
	// ID is the proposal's id.
	ID int `json:"id"`
}

// EmbedHard asks for vectors of hard memories.
type EmbedHard struct {
	// DryRun true sends nothing: the answer says what would be sent.
	DryRun bool `json:"dry_run,omitzero"`
	// MaxTokens limits the tokens that are sent; absent or 0: 200,000.
	MaxTokens int `json:"max_tokens,omitzero"`
}

// EmbeddedHard says which memories have vectors.
type EmbeddedHard struct {
	// Provider and Model are those of [mem] embed, to which the texts are sent.
	Provider string `json:"provider"`
	// Model: see Provider.
	Model string `json:"model"`
	// Memories is the number of memories with a text.
	Memories int `json:"memories"`
	// Missing is the number of different texts without a vector that are left.
	Missing int `json:"missing"`
	// Embedded is the number of texts that got a vector now.
	Embedded int `json:"embedded"`
	// Tokens is what they consumed; with dry_run an estimate for the missing ones.
	Tokens int `json:"tokens"`
	// TooLong is the number of texts that the model refused as too long.
	TooLong int `json:"too_long,omitzero"`
	// Exhausted is true if max_tokens ended the run.
	Exhausted bool `json:"exhausted,omitzero"`
}

// ListChannels has no fields.
type ListChannels struct{}

// Channels are the channels that have a history.
type Channels struct {
	// Channels are the channels, the one that changed last first.
	Channels []Channel `json:"channels"`
}

// Channel is a channel with a history.
type Channel struct {
	// ChannelID is the channel.
	ChannelID string `json:"channel_id"`
	// Bytes is the size of its file.
	Bytes int64 `json:"bytes"`
	// Updated is when it changed last, in RFC 3339.
	Updated string `json:"updated"`
}

// GetSoft has no fields.
type GetSoft struct{}

// SoftMemory is the soft memory.
type SoftMemory struct {
	// Content is the text.
	Content string `json:"content"`
	// Set is true if a soft memory was ever stored or cleared. An older mem never
	// sends it.
	Set bool `json:"set,omitzero"`
}

// SetSoft carries a new soft memory.
type SetSoft struct {
	// Content is the text, kept byte for byte; absent or empty clears it.
	Content string `json:"content,omitzero"`
}
