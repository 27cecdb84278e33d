// A foreign ACP client of version 1: it plays the scene of $SCENE and prints what it gets.
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import * as acp from "@agentclientprotocol/sdk";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { connect, end, of, problem, received, said, seen, send, update, updates } from "./acp.mjs";

const { ROOT: root, SCENE: scene } = process.env;
const m = acp.methods.agent;
const print = (...list) => console.log(...list.map((v) => typeof v === "string" ? v.replaceAll(root, "ROOT") : JSON.stringify(v)));
const zino = (...args) => execFileSync(process.argv[2], args, { encoding: "utf8", cwd: root, stdio: ["ignore", "pipe", "pipe"] });
const selected = (optionId) => ({ outcome: { outcome: "selected", optionId } });
const cancelled = { outcome: { outcome: "cancelled" } };

let c, init, asked = () => cancelled, wanted = () => ({ action: "cancel" }); // how questions are answered
const begin = async (more) => (await c.request(m.session.new, { cwd: root, mcpServers: [], ...more })).sessionId;
const prompt = async (sessionId, text, ...more) => {
  updates.length = 0;
  const answer = await c.request(m.session.prompt, { sessionId, prompt: [{ type: "text", text }, ...more] }).catch((e) => ({ stopReason: problem(e) }));
  return `${answer.stopReason} ${said()}`;
};
const cancel = (sessionId) => c.notify(m.session.cancel, { sessionId });
const commands = async () => {
  await seen((u) => u.sessionUpdate === "available_commands_update");
  return of("available_commands_update").at(-1).availableCommands.map((k) => k.name + (k.input ? ` (${k.input.hint})` : "")).join(", ");
};
const result = () => updates.filter((u) => u.rawOutput).map((u) => JSON.stringify(u.rawOutput.data ?? u.rawOutput.error)).join(" ");

const scenes = {
  async commands() {
    const id = await begin();
    print(await commands());
    for (const text of ["/fix 12", "/tell a joke", '/mcp__foreign__review "a file.go" be strict', "/mcp__foreign__review", " /fix 13", "/nothing 14"]) print(text, "=>", await prompt(id, text));
    print("link =>", await prompt(id, "/fix", { type: "resource_link", name: "a", uri: `file://${root}/a.txt` }));
    updates.length = 0;
    await c.request(m.session.load, { sessionId: id, cwd: root, mcpServers: [] });
    print("load", await commands());
  },

  async trust() {
    const id = await begin();
    const answer = (a) => {
      asked = (r) => {
        print(r.toolCall.title, r.toolCall.content[0].content.text.trim(), r.options.map((o) => `${o.optionId}:${o.kind}`).join(" "));
        return a;
      };
    };
    answer(cancelled);
    print("cancelled", await prompt(id, "say hello"));
    answer(selected("no"));
    print("no", await prompt(id, "say hello"));
    answer(selected("yes"));
    print("not asked", await prompt(id, "say hello"), of("available_commands_update").length);
    fs.appendFileSync(`${root}/.claude/commands/fix.md`, "Again.\n");
    print("yes", await prompt(id, "say hello"));
    print(await commands());
    print("used", await prompt(id, "/fix 12"));
    fs.appendFileSync(`${root}/.claude/commands/fix.md`, "And again.\n");
    asked = async (_, signal) => {
      await cancel(id);
      return new Promise((done) => signal.addEventListener("abort", () => done(cancelled)));
    };
    print("cancelled turn", await prompt(id, "say hello"));
  },

  async servers() {
    const seenHeaders = new Set();
    const web = http.createServer(async (req, res) => {
      seenHeaders.add(req.headers["x-secret"]);
      const server = new McpServer({ name: "web", version: "1" });
      server.registerTool("where", { description: "Says where." }, async () => ({ content: [{ type: "text", text: "on the web" }] }));
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
      await server.connect(transport);
      await transport.handleRequest(req, res);
    });
    await new Promise((done) => web.listen(0, "127.0.0.1", done));
    const mcpServers = [
      { name: "my server", command: process.execPath, args: [process.env.SERVER], env: [{ name: "CANARY", value: process.env.CANARY }] },
      { type: "http", name: "web", url: `http://127.0.0.1:${web.address().port}/mcp`, headers: [{ name: "X-Secret", value: process.env.CANARY }] },
    ];
    const id = await begin({ mcpServers });
    print("stdio", await prompt(id, "use stdio"), result());
    print("http", await prompt(id, "use http"), result(), seenHeaders.size === 1 && seenHeaders.has(process.env.CANARY));
    const other = await begin();
    print("other", await prompt(other, "use stdio"), result());
    print("listed", zino("mcp", "list", "--json").trim());
    for (const [what, bad] of Object.entries({ sse: { type: "sse", name: "s", url: "http://x", headers: [] }, twice: mcpServers[1], "no command": { name: "n", command: "", args: [], env: [] } })) {
      await begin({ mcpServers: [mcpServers[1], bad] }).catch((e) => print(what, problem(e)));
    }
    await c.request(m.session.close, { sessionId: id });
    await c.request(m.session.resume, { sessionId: id, cwd: root, mcpServers: [] });
    print("resumed", await prompt(id, "use stdio"), result());
    web.closeAllConnections();
    web.close();
  },

  async list() {
    const ids = [];
    for (let i = 0; i < 103; i++) {
      ids.push(await begin());
      await prompt(ids[i], "say hello");
    }
    const all = new Set();
    const pages = async (between = () => {}) => {
      all.clear();
      const sizes = [];
      for (let cursor; ;) {
        const page = await c.request(m.session.list, { cwd: root, cursor });
        page.sessions.forEach((s) => all.add(s.sessionId));
        sizes.push(page.sessions.length);
        if (!(cursor = page.nextCursor)) return sizes.join(" ");
        await between(page.sessions);
      }
    };
    print("pages", await pages(), all.size, all.isSupersetOf(new Set(ids)));
    let first = true;
    const some = async (page) => {
      if (!first) return;
      first = false;
      for (const s of [page[0], page[49]]) await c.request(m.session.delete, { sessionId: s.sessionId });
    };
    await pages(some);
    print("with removals", all.size);
    await prompt(await begin({ cwd: `${root}/sub` }), "say hello");
    print("here", await pages(), all.size, "everywhere", (await c.request(m.session.list, {})).sessions.length, (await c.request(m.session.list, { cwd: null, cursor: null })).sessions[0].cwd);
    for (const cursor of ["50", "x", "2026-01-01T00:00:00Z ../x"]) await c.request(m.session.list, { cursor }).catch((e) => print(problem(e)));
    await c.request(m.session.list, { cwd: "sub" }).catch((e) => print(problem(e)));
    for (const method of [m.session.close, m.session.delete, m.session.load, m.session.resume]) {
      print(method, await c.request(method, { sessionId: ids[0], cwd: root, mcpServers: [] }).catch((e) => problem(e).replace(ids[0], "ID")));
    }
    const fresh = await begin();
    print("not stored", await c.request(m.session.delete, { sessionId: fresh }));
  },

  async cancel() {
    let id;
    const fresh = async (mode = "yolo") => {
      id = await begin();
      await c.request(m.session.setConfigOption, { sessionId: id, configId: "mode", value: mode });
    };
    const stopped = async (what, text, ready) => {
      const answer = prompt(id, text);
      await ready();
      await cancel(id);
      await cancel(id); // a second time changes nothing
      print(what, await answer);
    };
    const thinking = () => until(() => zino("ps").includes("inference"));
    await fresh();
    await stopped("at once", "say hello", () => {});
    await fresh();
    await stopped("before the first token", "be mute", thinking);
    await stopped("in the stream", "be slow", () => seen((u) => u.sessionUpdate === "agent_message_chunk"));
    await fresh();
    await stopped("in a tool", "run long", () => seen((u) => u.status === "in_progress" && u.content));

    await fresh("ask");
    const asking = Promise.withResolvers();
    asked = (_, signal) => {
      asking.resolve();
      return new Promise((done) => signal.addEventListener("abort", () => done(cancelled)));
    };
    await stopped("in a question", "allow it", () => asking.promise);
    print("left", zino("approvals").trim());
    await fresh("ask");
    const mute = Promise.withResolvers();
    asked = () => (mute.resolve(), new Promise(() => {})); // it never answers
    await stopped("in a question without an answer", "allow it", () => mute.promise);
    await fresh("ask");
    const other = prompt(id, "allow it");
    zino("deny", await until(() => zino("approvals", "--json").match(/ap-[a-z0-9]+/)?.[0]));
    print("answered elsewhere", await other);

    await fresh();
    const elsewhere = spawn(process.argv[2], ["exec", "--session", id, "be mute"], { cwd: root, stdio: "ignore" });
    await thinking();
    await stopped("while queued", "say hello", () => seen((u) => u.sessionUpdate === "notice" && u.title.includes("waiting")));
    zino("stop", id);
    await new Promise((done) => elsewhere.on("exit", done));
    const closing = prompt(id, "be slow");
    await seen((u) => u.sessionUpdate === "agent_message_chunk");
    await cancel(id);
    await c.request(m.session.delete, { sessionId: id });
    print("deleted", await closing);
    await fresh();
    print("after all", await prompt(id, "say hello"));
  },

  async updates() {
    const id = await begin();
    print("usage", await prompt(id, "count"), of("usage_update"));
    print("again", await prompt(id, "count"), of("usage_update"));
    print("plan", await prompt(id, "make a plan"), of("plan"));
    const slow = prompt(id, "be slow");
    await seen((u) => u.sessionUpdate === "agent_message_chunk");
    zino("sessions", "rename", id, "Another name");
    await seen((u) => u.sessionUpdate === "session_info_update");
    await cancel(id);
    await slow;
    print("title", of("session_info_update"), (await c.request(m.session.list, { cwd: root })).sessions[0].title);
    await prompt(id, "try twice");
    print("notices", of("notice").map((n) => `${n.severity} ${n.title.split(";")[0]}`));
    const grants = [];
    asked = (r) => {
      grants.push(r.options.map((o) => o.optionId).join(" "));
      return selected("deny");
    };
    await c.request(m.session.setConfigOption, { sessionId: id, configId: "mode", value: "ask" });
    for (const text of ["run once", "run session", "run always"]) await prompt(id, text);
    print("grants", grants);
    const state = await c.request(m.session.resume, { sessionId: id, cwd: root, mcpServers: null, _meta: null });
    print("options", state.configOptions.map((o) => o.id));
    await c.request(m.session.setConfigOption, { sessionId: id, configId: "mode", value: "nonsense" }).catch((e) => print(problem(e)));
  },

  async input() {
    const id = await begin();
    const forms = [{ action: "accept", content: { name: "Ada", talks: 2, dinner: true } }, { action: "accept", content: { name: "A", talks: 2 } }, { action: "decline" }, { action: "cancel" }];
    wanted = (r) => {
      print(r.mode, r.message, Object.keys(r.requestedSchema?.properties ?? {}).join(" "), r.url ?? "");
      return forms.shift();
    };
    for (const what of ["accepted", "wrong", "declined", "cancelled"]) print(what, await prompt(id, "register me"), result());
    print("page", await prompt(id, "sign me in"), result());
    wanted = (_, signal) => {
      cancel(id);
      return new Promise((done) => signal.addEventListener("abort", () => done({ action: "cancel" })));
    };
    print("turn cancelled", await prompt(id, "register me"));
  },

  async model() {
    print("methods", init.authMethods.map((a) => [a.id, a.type, ...a.args].join(" ")));
    await begin().catch((e) => print("new", e.code, e.message));
    await c.request(m.authenticate, { methodId: "openrouter" }).catch((e) => print(problem(e)));
  },

  async older() {
    const state = await c.request(m.session.new, { cwd: root, mcpServers: [] });
    print("options", state.configOptions.map((o) => o.id));
    await c.request(m.session.setConfigOption, { sessionId: state.sessionId, configId: "mode", value: "ask" }).catch((e) => print(problem(e)));
  },

  async lines() {
    const id = await begin();
    const long = (size) => {
      const head = '{"jsonrpc":"2.0","id":"long","method":"no/such","params":{"x":"', tail = '"}}';
      send(head + "x".repeat(size - head.length - tail.length) + tail);
    };
    long(16 << 20);
    print("16 MiB", await answered("long"));
    long((16 << 20) + 1);
    print("more", await answered("null"));
    for (const line of ["{", "[]", '{"jsonrpc":"2.0","id":1}', '{"jsonrpc":"2.0","id":null,"method":"x"}', '{"jsonrpc":"1.0","id":1,"method":"x"}', "\u0000", '"text"']) {
      send(line);
      print([line], await answered("null"));
    }
    send("\r");
    const raw = async (method, params) => {
      send(JSON.stringify({ jsonrpc: "2.0", id: "raw", method, params, _meta: { a: [null] } }));
      return answered("raw");
    };
    const _meta = { "zed.dev/x": { deep: [1, null] } };
    print("initialize", await raw("initialize", { protocolVersion: 1, clientCapabilities: null, clientInfo: null, _meta }));
    print("capabilities", await raw("initialize", { protocolVersion: 1, clientCapabilities: { fs: null, session: null, auth: null, elicitation: null, terminal: null, _meta }, _meta: null }));
    print("new", await raw("session/new", { cwd: root, mcpServers: null, additionalDirectories: null, _meta }));
    print("servers", await raw("session/new", { cwd: root, mcpServers: [{ type: null, name: "n", command: "true", args: null, env: null, _meta }], _meta: null }));
    print("list", await raw("session/list", { cwd: null, cursor: null, _meta }));
    const block = { type: "text", text: "say hello", annotations: null, _meta };
    print("prompt", await raw("session/prompt", { sessionId: id, prompt: [block, { type: "resource", resource: { uri: "file:///c", text: "in c", mimeType: null, _meta: null }, _meta }], messageId: null, _meta: null }));
    print("option", await raw("session/set_config_option", { sessionId: id, configId: "mode", value: "ask", type: null, _meta }));
    print("null option", await raw("session/set_config_option", { sessionId: id, configId: "mode", value: null }));
    print("load", await raw("session/load", { sessionId: id, cwd: root, mcpServers: null, additionalDirectories: null, _meta }));
    print("resume", await raw("session/resume", { sessionId: id, cwd: root, mcpServers: null, _meta }));
    print("null id", await raw("session/prompt", { sessionId: null, prompt: null }));
    print("null params", await raw("session/list", null));
    print("audio", await raw("session/prompt", { sessionId: id, prompt: [{ type: "audio", data: "", mimeType: "audio/wav" }] }));
    process.kill(+process.env.MEM, "SIGSTOP");
    send(JSON.stringify({ jsonrpc: "2.0", id: "load", method: "session/load", params: { sessionId: id, cwd: root, mcpServers: [] } }));
    send(JSON.stringify({ jsonrpc: "2.0", method: "$/cancel_request", params: { requestId: "load", _meta } }));
    print("cancelled load", await answered("load"));
    process.kill(+process.env.MEM, "SIGCONT");
    send(JSON.stringify({ jsonrpc: "2.0", id: "slow", method: "session/prompt", params: { sessionId: id, prompt: [{ type: "text", text: "be slow" }] } }));
    updates.length = 0;
    await seen((u) => u.sessionUpdate === "agent_message_chunk");
    send(JSON.stringify({ jsonrpc: "2.0", method: "$/cancel_request", params: { requestId: "slow" } }));
    print("cancelled prompt", await answered("slow"));
    print("close", await raw("session/close", { sessionId: id, _meta: null }));
    print("closed", (await raw("session/close", { sessionId: id })).replace(id, "ID"));
    print("delete", await raw("session/delete", { sessionId: id, _meta }));
    print("deleted", (await raw("session/delete", { sessionId: id })).replace(id, "ID"));
  },

  async leave() {
    const id = await begin();
    await c.request(m.session.setConfigOption, { sessionId: id, configId: "mode", value: "ask" });
    const leaving = Promise.withResolvers();
    asked = () => (leaving.resolve(), new Promise(() => {}));
    prompt(id, process.env.PROMPT);
    await Promise.race([leaving.promise, seen((u) => u.sessionUpdate === "agent_message_chunk")]);
    console.error("leaving");
    await new Promise(() => setInterval(() => {}, 1000));
  },
};

// until waits for what has no event.
const until = async (what) => {
  for (let v; ; await new Promise((done) => setTimeout(done, 20))) if ((v = await what())) return v;
};

// answered waits for the next answer with that id, and prints its shape.
let read = 0;
const answered = (id) => until(() => {
  for (; read < received.length;) {
    const a = JSON.parse(received[read++]);
    if (!a.method && String(a.id) === id) return a.error ? `${a.error.code} ${a.error.message}` : `ok ${Object.keys(a.result).join(" ")}`;
  }
});

await acp.client({ name: "t" })
  .onRequest(acp.methods.client.session.requestPermission, (r) => asked(r.params, r.signal))
  .onRequest(acp.methods.client.elicitation.create, (r) => wanted(r.params, r.signal))
  .onNotification(acp.methods.client.session.update, update)
  .connectWith(connect(acp), async (connection) => {
    c = connection;
    const clientCapabilities = { session: { notices: {} }, ...JSON.parse(process.env.CAPABILITIES || "{}") };
    init = await c.request(m.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities });
    await scenes[scene]();
  });
await end();
