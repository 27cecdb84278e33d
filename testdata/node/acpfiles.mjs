// A foreign ACP client with files of its own: unsaved changes, links, and images.
import fs from "node:fs";
import * as acp from "@agentclientprotocol/sdk";
import { connect, end, of, problem, said, update, updates } from "./acp.mjs";

const root = process.env.ROOT;
const unsaved = { [`${root}/a.txt`]: "zero\nunsaved\n" };
let asked = [];
const read = (r) => {
  asked.push(r.params.path.replace(root, ""));
  if (r.params.path.endsWith("mute.txt")) return new Promise(() => {});
  if (unsaved[r.params.path] === undefined) throw acp.RequestError.resourceNotFound(r.params.path);
  return { content: unsaved[r.params.path] };
};
await acp.client({ name: "t" })
  .onRequest(acp.methods.client.fs.readTextFile, read)
  .onNotification(acp.methods.client.session.update, update)
  .connectWith(connect(acp), async (c) => {
    const m = acp.methods.agent;
    await c.request(m.initialize, { protocolVersion: 1, clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } } });
    const { sessionId } = await c.request(m.session.new, { cwd: root, mcpServers: [] });
    const prompt = async (text, ...more) => {
      updates.length = 0;
      asked = [];
      await c.request(m.session.prompt, { sessionId, prompt: [{ type: "text", text }, ...more] }).catch((e) => updates.push({ sessionUpdate: "agent_message_chunk", content: { text: problem(e) } }));
      return [said(), ...asked.sort()].join(" ");
    };
    const results = () => of("tool_call_update").filter((u) => u.rawOutput).map((u) => JSON.stringify(u.rawOutput.data?.content ?? u.rawOutput.error)).sort().join(" ");
    console.log("read:", await prompt("read a"), results());
    console.log("edit:", await prompt("edit what you saw"), results());
    console.log("saved:", await prompt("read other"), results());
    console.log("missing:", await prompt("read missing"), results());
    console.log("two:", await prompt("read both"), results());
    console.log("mute:", await prompt("read mute"), results());
    console.log("link:", await prompt("link", { type: "resource_link", name: "a", uri: `file://${root}/a.txt` }));
    console.log("named:", await prompt("see @b.txt now"));
    const image = (name) => ({ type: "image", mimeType: "image/png", data: fs.readFileSync(`${root}/${name}`).toString("base64") });
    console.log("image:", await prompt("look at it", image("shot.png")));
    console.log("scaled:", await prompt("look at it", image("wide.png")));
    console.log("lies:", await prompt("look at it", { ...image("shot.png"), mimeType: "image/jpeg" }));
    console.log("linked image:", await prompt("look at it", { type: "resource_link", name: "shot.png", uri: `file://${root}/shot.png` }));
    console.log("no image:", await prompt("look at it", image("b.txt")));
    console.log("too large:", await prompt("look at it", image("bomb.png")));
    console.log("two large:", await prompt("look at it", image("noise.png"), image("noise.png"), image("noise.png")));
    console.log("bad base64:", await prompt("look at it", { type: "image", mimeType: "image/png", data: "%%" }));
    updates.length = 0;
    await c.request(m.session.load, { sessionId, cwd: root, mcpServers: [] });
    console.log("load:", of("user_message_chunk").filter((u) => u.content.type === "image")
      .map((u) => `${u.content.mimeType} ${Buffer.from(u.content.data, "base64").readUInt32BE(16)}`).join(", "));
  });
await end();
