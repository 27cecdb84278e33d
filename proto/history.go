package proto

// Changelog has one dated line per change of the contract. Changes only add: a
// method is replaced by a new type, never altered.
var Changelog = [...]string{
	"1  2026-11-21  the services of the specification; meta, error codes, describe, stats, forward, keepalive",
	"2  2026-11-21  infer: tools, provider, model, max_tokens, system, session_id, events; answers with usage, stop_reason, tool_calls; usage of rtr",
	"3  2026-11-21  sessions of mem: create, append, read, list, find, search, fork, export, remove, messages, hold",
	"4  2026-11-21  mem: list, get, update and delete hard memories, list channels; filters, min_score and explain of search_hard",
	"5  2026-11-21  ctx: build with session_id and context_tokens; budgets; created of store_hard",
	"6  2026-11-21  turns of the terminal agent: session_id, root, system_prompt, events and more of the daemon's chat and of run; context and handoff; tools of agr; call of exc; root of execute and of sys get",
	"7  2026-11-21  the file REPL: pages, eval, watch, attach, result, events and started of repl",
	"8  2026-11-21  confinement: sandbox and network of chat, run, call and execute, confinement of their results",
	"9  2026-11-21  next of mem's hold_session: a turn that outlives mem has its lock again",
	"10 2026-11-21  held of append_session; set of mem's soft memory: it was stored or cleared at some time; refused of confinement; no network at the level off is an error; url of repl's pages, also where it is empty",
	"11 2026-11-22  effort of chat, run and infer",
	"12 2026-11-22  prices_of of usage_report; context_window of the final text and of the usage event",
	"13 2026-11-22  session, sandbox and network of sys get, template and template_missing of its answer and of the context report; warnings of a text; an empty system_prompt is no prompt, where it was the template",
	"14 2026-11-22  not_stored of the daemon's answer on a channel",
	"15 2026-11-22  env, cwd and umask of chat, run, call and execute",
	"16 2026-11-22  sandbox of repl's eval: refused (denied) at confined levels unless [repl] from_sandbox",
	"17 2026-11-22  root of list_sessions and find_session; turns, root, title, cost_usd and unpriced of a session summary, elsewhere of the list",
	"18 2026-11-22  models of rtr",
	"19 2026-11-22  effort of handoff",
	"20 2026-11-22  interrupted of execute and of results of bash",
	"21 2026-11-22  search_sessions looks into calls and results (role tool); problems of its answer",
	"22 2026-11-22  scan among the unlimited of confinement: a root with more files than are looked through for protected names",
	"23 2026-11-22  no_save of run and infer",
	"24 2026-11-22  ok of the tool_finished event and of stored messages of role tool",
	"25 2026-11-22  at of append_session",
	"26 2026-11-22  run of zino-run@: umask, timeout_ms, grace_ms and output_max; hanging up ends the command; time and output among the limits of its end",
	"27 2026-11-22  held of append_session is ignored; next of hold_session leaves open calls alone, and no more; messages in a row are not joined by get_messages",
	"28 2026-11-22  offsets of the answers of append_session and read_session; max_bytes of read_session; its error for a from that is not the start of an event names the offset",
}
