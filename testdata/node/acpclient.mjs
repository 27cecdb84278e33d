// A foreign ACP client of version 1: it prints what it gets.
import * as acp from "@agentclientprotocol/sdk";
import { connect, end, problem, said, seen, update, updates } from "./acp.mjs";

const answers = { "allow it": "once", "deny it": "deny" };
let asked = "";
const permission = async (r) => {
  const p = r.params;
  console.log("asked:", p.toolCall.title, "|", p.options.map((o) => o.kind).join(" "));
  const option = p.options.find((o) => o.optionId === (answers[asked] ?? "yes")) ?? p.options[0];
  return { outcome: { outcome: "selected", optionId: option.optionId } };
};

await acp.client({ name: "t" })
  .onRequest(acp.methods.client.session.requestPermission, permission)
  .onNotification(acp.methods.client.session.update, update)
  .connectWith(connect(acp), async (c) => {
    const m = acp.methods.agent;
    const init = await c.request(m.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: { session: { notices: {} }, auth: { terminal: true } } });
    console.log("initialize", init.protocolVersion, init.agentInfo.name, Object.keys(init.agentCapabilities.sessionCapabilities).join(" "), init.authMethods.length);
    const prompt = async (sessionId, text, ...more) => {
      asked = text;
      updates.length = 0;
      const r = await c.request(m.session.prompt, { sessionId, prompt: [{ type: "text", text }, ...more] });
      return r.stopReason;
    };
    await c.request(m.session.new, { cwd: "relative", mcpServers: [] }).catch((e) => console.log("relative:", problem(e)));
    const s = await c.request(m.session.new, { cwd: process.env.ROOT, mcpServers: [] });
    const id = s.sessionId;
    console.log("options", s.configOptions.map((o) => `${o.id}=${o.currentValue}`).join(" "));
    console.log("prompt", await prompt(id, "say hello"), said());
    console.log("edit", await prompt(id, "change the file"), updates.filter((u) => /^tool_call/.test(u.sessionUpdate)).map((u) => `${u.sessionUpdate}:${u.kind ?? u.status}`).join(" "));
    const diff = updates.flatMap((u) => u.content ?? []).find((b) => b.type === "diff");
    console.log("diff", diff.path.split("/").pop(), JSON.stringify(diff.oldText), JSON.stringify(diff.newText));
    console.log("link", await prompt(id, "look at", { type: "resource_link", name: "a", uri: "file:///tmp/a%20b.txt" },
      { type: "resource", resource: { uri: "file:///tmp/c", text: "in c" } }), said());
    const set = await c.request(m.session.setConfigOption, { sessionId: id, configId: "mode", value: "ask" });
    console.log("set", set.configOptions.map((o) => `${o.id}=${o.currentValue}`).join(" "));
    await c.request(m.session.setConfigOption, { sessionId: id, configId: "colour", value: "red" }).catch((e) => console.log("colour:", problem(e)));
    console.log("allowed", await prompt(id, "allow it"), said());
    console.log("denied", await prompt(id, "deny it"), said());
    const slow = prompt(id, "be slow");
    await seen((u) => u.sessionUpdate === "agent_message_chunk");
    await c.request(m.session.prompt, { sessionId: id, prompt: [{ type: "text", text: "and this" }] }).catch((e) => console.log("second:", problem(e)));
    await c.notify(m.session.cancel, { sessionId: id });
    console.log("cancelled", await slow);
    console.log("length", await prompt(id, "be long"));
    await prompt(id, "fail now").catch((e) => console.log("failed:", problem(e), e.data?.code));
    const list = await c.request(m.session.list, { cwd: process.env.ROOT });
    console.log("list", list.sessions.length, list.sessions[0].sessionId === id, list.sessions[0].title);
    await c.request(m.session.close, { sessionId: id });
    await prompt(id, "closed").catch((e) => console.log("closed:", problem(e).replace(id, "ID")));
    updates.length = 0;
    await c.request(m.session.load, { sessionId: id, cwd: process.env.ROOT, mcpServers: [] });
    console.log("load", updates.filter((u) => u.sessionUpdate === "user_message_chunk").length, updates.some((u) => u.sessionUpdate === "tool_call"), said().includes("Hello"));
    await c.request(m.session.resume, { sessionId: id, cwd: process.env.ROOT, mcpServers: [] });
    await c.request(m.session.load, { sessionId: "none", cwd: process.env.ROOT, mcpServers: [] }).catch((e) => console.log("unknown:", problem(e)));
    console.log("again", await prompt(id, "say hello"), said());
    await c.request(m.session.delete, { sessionId: id });
    console.log("left", (await c.request(m.session.list, { cwd: process.env.ROOT })).sessions.length);
    await c.request("no/such", {}).catch((e) => console.log("method:", e.code));
    await c.request(m.authenticate, { methodId: "x" }).catch((e) => console.log("authenticate:", e.code));
  });
await end();
