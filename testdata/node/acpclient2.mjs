// A foreign ACP client of version 2, a draft: see acpclient.mjs.
import * as acp from "@agentclientprotocol/sdk/experimental/v2";
import { connect, end, said, seen, update, updates } from "./acp.mjs";

const permission = async (r) => {
  console.log("asked:", r.params.title, "|", r.params.options.map((o) => o.kind).join(" "));
  return { outcome: { outcome: "selected", optionId: "once" } };
};
const idle = (u) => u.sessionUpdate === "state_update" && u.state === "idle";

await acp.client({ name: "t" })
  .onRequest(acp.methods.client.session.requestPermission, permission)
  .onNotification(acp.methods.client.session.update, update)
  .connectWith(connect(acp), async (c) => {
    const m = acp.methods.agent;
    const init = await c.request(m.initialize, { protocolVersion: 2, info: { name: "t", version: "1" }, capabilities: {} });
    console.log("initialize", init.protocolVersion, init.info.name, Object.keys(init.capabilities.session).join(" "));
    const { sessionId } = await c.request(m.session.new, { cwd: process.env.ROOT });
    const prompt = async (text) => {
      updates.length = 0;
      const r = await c.request(m.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
      await seen(idle);
      const user = updates.find((u) => u.sessionUpdate === "user_message");
      return `${updates.filter((u) => u.sessionUpdate === "state_update").map((u) => u.state).join(" ")} ${updates.find(idle).stopReason} ${user.messageId === r.messageId}`;
    };
    console.log("prompt", await prompt("say hello"), said());
    console.log("edit", await prompt("change the file"), updates.flatMap((u) => u.content ?? []).find((b) => b.type === "diff").changes[0].operation);
    await c.request(m.session.setConfigOption, { sessionId, configId: "mode", type: "id", value: "ask" });
    console.log("allowed", await prompt("allow it"), said());
    updates.length = 0;
    await c.request(m.session.prompt, { sessionId, prompt: [{ type: "text", text: "be slow" }] });
    await seen((u) => u.sessionUpdate === "agent_message_chunk");
    await c.request(m.session.prompt, { sessionId, prompt: [{ type: "text", text: "and this" }] });
    await c.notify(m.session.cancel, { sessionId });
    await seen(idle);
    console.log("cancelled", updates.find(idle).stopReason, updates.filter((u) => u.sessionUpdate === "user_message").length);
    console.log("failed", await prompt("fail now"));
    updates.length = 0;
    await c.request(m.session.resume, { sessionId, cwd: process.env.ROOT, replayFrom: { type: "start" } });
    console.log("resume", updates.some((u) => u.sessionUpdate === "user_message_chunk"));
    await c.request(m.session.delete, { sessionId });
  });
await end();
