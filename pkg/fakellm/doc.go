// Package fakellm is a scripted provider of language models: a real HTTP
// server that speaks the wires of OpenAI (chat completions, OpenRouter's too, and Responses),
// Anthropic (messages), Gemini (generateContent) and Ollama (chat), whole and
// streamed, answers from a script, and records the requests. One script works on
// every wire. It has no randomness and never sleeps: it waits only at gates that a
// test opens.
//
//	OpenAI      POST /v1/chat/completions, GET /v1/models
//	            the same below /api/v1 (OpenRouter) and /v1beta/openai (Gemini)
//	Responses   POST /v1/responses
//	Anthropic   POST /v1/messages
//	Gemini      POST /v1beta/models/MODEL:streamGenerateContent?alt=sse and
//	            MODEL:generateContent, GET /v1beta/models
//	Ollama      POST /api/chat and /api/show, GET /api/tags and /api/version
//
// A script is a list of turns. A request is answered by the first unused turn whose
// match, if set, is in the text of the request's last message, tool results
// included. A request without a matching turn is answered with status 500.
//
// Scripts are Go values or text:
//
//	# a comment; blank lines between turns are skipped
//	=== reply size=4 match="weather"
//	The text, up to the next line that begins with three equals signs,
//	without its last newline. Escape a line of the text that begins with
//	three equals signs or @call with a backslash.
//	=== reply reasoning="It needs the clock." usage=120,30,100
//	Let me look.
//	@call execute_bash {"code":"date"}
//	=== status 429 type=application/json header="Retry-After: 2"
//	{"error":{"message":"slow down"}}
//	=== reply end=cut
//	This stream ends early.
//
// The kinds of turn:
//
//	reply        the text is the model's answer, streamed or whole as asked
//	status CODE  the text is the body of an HTTP answer, sent unchanged
//	stall        nothing is sent until the client hangs up
//	hangup       the connection is closed without an answer
//
// Settings, all optional, as key=value or key="Go string" after the kind:
//
//	match=TEXT   only for a request whose last message contains TEXT
//	times=N      the turn is used N times, or "forever"; once if absent
//	wait=NAME    first wait until the gate NAME is opened
//	pause=NAME   wait at the gate NAME after the text and the calls
//	size=N       cut a reply into deltas of N characters, its reasoning and the
//	             arguments of its calls too; a body into writes of N bytes
//	bytes=N      every write to the connection has N bytes
//	whole        reply: answer with JSON even if a stream was asked for
//	event=JSON   reply: one more event with this data after the text and the calls
//	type=TYPE    status: the content type, application/json if absent
//	header=LINE  one more header line of the answer
//	end=HOW      how a reply ends (below); a body can end with cut, stall and hangup
//	reasoning=TEXT     reply: reasoning before the text (below)
//	reasoning_key=KEY  the form of the reasoning on the OpenAI wire (below)
//	finish=REASON      reply: the finish reason in place of stop or tool_calls;
//	             OpenAI's stop, length, tool_calls and content_filter are
//	             translated for each wire, any other is sent unchanged
//	usage=IN,OUT[,CACHE_READ[,CACHE_WRITE[,REASONING]]]
//	             the reported tokens; IN includes cached tokens and OUT includes
//	             reasoning, as in OpenAI's usage. Bytes if absent.
//	nousage      no usage is reported
//	cost=USD     the cost in the usage, on the OpenAI wire, as OpenRouter sends it
//	redirect=URL status 307 to URL, nothing else
//	refuses=NAME reply: status 400 if the request has the parameter NAME (as the
//	             wire spells it); several with commas
//	fault=NAME   what is wrong with the answer (below); several with commas
//
// Ends: done (finish reason, usage and end mark, the default), finish (finish
// reason, then end of input), mark (the end mark without a finish reason), cut
// (end of input in the middle), stall (nothing more until the client hangs up),
// hangup (the connection breaks). The end mark is [DONE] for OpenAI and
// message_stop for Anthropic, whose message_delta is the finish reason. Gemini
// and Ollama send both in one event: with mark, it lacks the reason. So does
// Responses: with mark, [DONE] is sent instead. A whole answer can end with stall
// and hangup only.
//
// # Tool calls
//
// A line "@call NAME ARGUMENTS" in a reply's text is a call. It is not part of the
// text; all calls are sent after the text. The arguments, the rest of the line, are
// sent unchanged, even if they are not JSON; see the fault openargs for wires that
// cannot represent that. Options between name and arguments:
//
//	id=ID        the call's id; call_N if absent, N counting the server's calls
//	noid         no id is sent
//	noindex      no index is sent (OpenAI, Responses, Ollama)
//	whole        the call is sent in one event (OpenAI), its arguments in one delta
//	             (Anthropic, Responses); on the other wires every call is
//
// # Reasoning
//
// Every reasoning has a signature that a client has to send back: sig-N, N
// counting the server's replies with reasoning. Anthropic: a thinking block with
// the signature in a signature_delta. Gemini: parts with thought, the signature
// (in base64, as the wire demands) on the part of the first call. Responses: a
// reasoning item with a summary, and the signature as encrypted_content. Ollama:
// message.thinking, no signature. OpenAI, by reasoning_key:
//
//	reasoning_content  delta.reasoning_content; this if absent
//	reasoning          delta.reasoning
//	reasoning_details  OpenRouter: delta.reasoning, and delta.reasoning_details
//	                   with the text and, last, the signature
//	extra_content      Gemini: only extra_content.google.thought_signature on the
//	                   first call
//
// # Faults
//
// The faults, with the closest equivalent on other wires and in whole answers:
//
//	html         status 200 and a web page
//	json         the same as whole
//	error200     the wire's own error in the stream, after the text, and end of
//	             input; not streamed: error200json
//	error200json status 200 and the wire's own error as JSON
//	comments     after the text, comments and blank lines until the client hangs
//	             up; Ollama: blank lines; not streamed: blank lines before the JSON
//	longline     10 MiB more of text in one event
//	cutchar      a write ends in the middle of every multi-byte character
//	openargs     the last call's arguments are truncated; a reply without a call
//	             gets one. Gemini: the reason MALFORMED_FUNCTION_CALL without the
//	             call. Ollama: an error and end of input; not streamed: status 500
//	badjson      after the text, an event that is not JSON; not streamed: the body
//	             lacks its end
//	badutf8      one more delta, with a byte that is not UTF-8
//	unknown      unknown events, deltas, blocks and fields, everywhere;
//	             not streamed: a field
//	crlf         lines end in CRLF
//	nospace      no blank after "data:"; Ollama: no effect
//	bom          a byte order mark first
//	noevent      Anthropic, Responses: no event lines; other wires: no effect
//	splitdata    the JSON in several data lines; Ollama: blank lines between; not
//	             streamed: the JSON in several lines
//	nofinish     the same as end=cut
//	emptyfinish  the same as end=mark
package fakellm
