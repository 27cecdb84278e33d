package proto

// AgrRun runs the agent's loop: it asks the model, carries out the tool calls and
// tasks in the answer, and repeats that until the model asks for none. The
// collected answer and done carry the number of iterations. A tool that failed is
// part of the text, not an error. An error of the model's provider is passed on
// with its code, status and details.
// In a turn of a session every call, native or in the text, has an envelope as
// its result: see Tool results.
var AgrRun = textMethod[Run]("agr", "run", "result")

// AgrProceed ends the wait of a run at a checkpoint. A repeat of the last one is
// ok. The error not_found means that the turn does not run here, or does not wait
// at that step and point.
var AgrProceed = method[Proceed, Empty]("agr", "proceed", "ok")

// AgrTools returns the tools that a turn of a session offers to the model.
var AgrTools = method[ToolsRequest, Tools]("agr", "tools", "tools")

// AgrPrepare prepares an image or PDF file for a model: it is decoded, freed of metadata
// and, if it is too large, scaled. The errors invalid and too_large name the file and why
// it cannot be sent.
var AgrPrepare = method[FileData, Prepared]("agr", "prepare", "prepared")

// Prepared is a file as a model gets it.
type Prepared struct {
	// Name is the file's name without directories.
	Name string `json:"name,omitzero"`
	// MediaType is its kind.
	MediaType string `json:"media_type"`
	// Data is the content, in base64.
	Data []byte `json:"data"`
}

// ToolsRequest selects tools.
type ToolsRequest struct {
	// Agents is as of run.
	Agents bool `json:"agents,omitzero"`
	// Skill is as of run.
	Skill bool `json:"skill,omitzero"`
	// Root is as of run.
	Root string `json:"root,omitzero"`
	// Project is as of run.
	Project Raw `json:"project,omitzero"`
	// Offer is as of run.
	Offer Raw `json:"offer,omitzero"`
}

// Tools are functions that a model may call.
type Tools struct {
	// Tools are the functions, as in infer of rtr.
	Tools Raw `json:"tools"`
}

// Run is an assembled prompt for the agent.
type Run struct {
	// Messages are the whole prompt in OpenAI's form: system, context, user.
	Messages Raw `json:"messages"`
	// Temperature is the sampling temperature, 0 to 2.
	Temperature float64 `json:"temperature"`
	// TopP is the nucleus sampling parameter, above 0 to 1.
	TopP float64 `json:"top_p"`
	// MaxIterations limits the inferences of the main loop. Absent: the
	// configured limit. Zero or less: no inference at all.
	MaxIterations *int `json:"max_iterations,omitzero"`
	// Stream asks for chunks as they come. The daemon always sends it.
	Stream *bool `json:"stream,omitzero"`
	// NeedModel makes it an error if no model can be asked: see infer of rtr.
	NeedModel bool `json:"need_model,omitzero"`
	// SessionID is the terminal session that the turn belongs to. With it the
	// model's native tools are used where it has them, and the usage is counted
	// for the session.
	SessionID string `json:"session_id,omitzero"`
	// NoSave is true if the session is not stored. It changes the advice in errors.
	NoSave bool `json:"no_save,omitzero"`
	// Provider replaces the configured one: see infer of rtr.
	Provider string `json:"provider,omitzero"`
	// Model replaces the configured one.
	Model string `json:"model,omitzero"`
	// MaxTokens limits each answer, in tokens.
	MaxTokens int `json:"max_tokens,omitzero"`
	// Effort is how much the model reasons: see infer of rtr.
	Effort string `json:"effort,omitzero"`
	// OnLimit is "stop" or "park": see infer of rtr.
	OnLimit string `json:"on_limit,omitzero"`
	// Root is the working directory of the tools, an absolute path; absent: the
	// one that exc was started in.
	Root string `json:"root,omitzero"`
	// Sandbox is the level of confinement for code that the model has run: see
	// execute of exc.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network; absent: as
	// configured.
	Network *bool `json:"network,omitzero"`
	// Env is the environment of the tools: see execute of exc.
	Env map[string]string `json:"env,omitzero"`
	// Cwd is the working directory if no root is given.
	Cwd string `json:"cwd,omitzero"`
	// Umask is the file mode creation mask.
	Umask *int `json:"umask,omitzero"`
	// Events asks for typed packets in place of chunks: see Events. It implies
	// stream.
	Events bool `json:"events,omitzero"`
	// Token is what the daemon vouches for: session, turn, mode, requester, root, sandbox,
	// network, and whether a person can be asked. It is BASE64URL(payload) "."
	// BASE64URL(signature), an Ed25519 signature with the daemon's key over
	// "zino-grant-1\n" and the payload, an object. agr passes it on in every call, and
	// keeps the mode itself for tools that touch nothing of the host. Absent: the mode is
	// yolo.
	Token string `json:"token,omitzero"`
	// Turn is the id of the session's turn. With it agr sends checkpoints and waits
	// for proceed at each: see Checkpoint. It requires session_id and events. A
	// second run of a turn ends the first one, and starts when that has ended.
	Turn string `json:"turn,omitzero"`
	// FirstStep is the number of the first inference; absent: 1.
	FirstStep int `json:"first_step,omitzero"`
	// Agents is true if the caller starts sub-agents: it carries out the calls of the
	// checkpoint delegate. It needs a turn.
	Agents bool `json:"agents,omitzero"`
	// ReadOnly restricts the tools to read, skill, recall, recall_sessions, and job with
	// the action output: for a sub-agent that no sandbox confines.
	ReadOnly bool `json:"read_only,omitzero"`
	// UsageSession is the session that the usage is counted for; absent: session_id.
	UsageSession string `json:"usage_session,omitzero"`
	// Owner restricts the tool recall_sessions to the sessions that this user started;
	// absent: it is not restricted.
	Owner *int `json:"owner,omitzero"`
	// Skill is true if the tool skill is offered: the prompt names a skill.
	Skill bool `json:"skill,omitzero"`
	// ProjectSkills are the trusted skills of the project, for the tool skill.
	ProjectSkills []ProjectSkill `json:"project_skills,omitzero"`
	// Mask is what secrets in results of calls are masked with; absent: shapes and
	// configured values only.
	Mask *Masking `json:"mask,omitzero"`
	// OutputSchema is the JSON Schema that the model is asked to answer by: see infer of
	// rtr. The caller checks the answer.
	OutputSchema Raw `json:"output_schema,omitzero"`
	// Calls are calls of an earlier attempt without results: agr settles them
	// before it asks the model. They are the last calls of messages.
	Calls []OpenCall `json:"calls,omitzero"`
	// Files are the attachments of messages that are not stored with the session.
	Files []FileData `json:"files,omitzero"`
	// Project is the content of the trusted .mcp.json: see servers of mcp.
	Project Raw `json:"project,omitzero"`
	// Client has the MCP servers that the client of the turn brings, in the same form.
	Client Raw `json:"client,omitzero"`
	// ClientFiles makes the tool read stop at a checkpoint read first: the text of
	// proceed takes the place of the file's.
	ClientFiles bool `json:"client_files,omitzero"`
	// Offer is the last event tools of the session: see ToolOffer. Absent: MCP tools were
	// not offered yet.
	Offer Raw `json:"offer,omitzero"`
	// Says are messages of the user that follow messages and the results of calls.
	Says []Say `json:"says,omitzero"`
	// Hooks are those of PreToolUse and PostToolUse.
	Hooks []Hook `json:"hooks,omitzero"`
	// Transcript is the path of the session's file, for hooks; absent: nothing is stored.
	Transcript string `json:"transcript,omitzero"`
}

// Streaming reports whether the caller asked for chunks.
func (r Run) Streaming() bool { return r.Chunks() || r.Events }

// Chunks reports whether the caller asked for chunks with stream.
func (r Run) Chunks() bool { return r.Stream != nil && *r.Stream }
