// A foreign MCP server for tests of zino-mcp, over stdio.
import { appendFileSync } from "node:fs";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "foreign", version: "1" });
const text = (text) => ({ content: [{ type: "text", text }] });
server.registerTool("echo", { description: "Echoes.", inputSchema: { name: z.string() } }, async ({ name }) => text("hello " + name));
server.registerTool("canary", { description: "Returns the size of a secret." }, async () => text(String(process.env.CANARY?.length)));
server.registerTool("big", { description: "Returns many bytes.", inputSchema: { bytes: z.number() } }, async ({ bytes }) => text("x".repeat(bytes)));
server.registerTool("print", { description: "Prints to standard output." }, async () => {
  console.log("a line that is not a message");
  return text("printed");
});
server.registerTool("picture", { description: "Returns an image." }, async () => ({ content: [{ type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" }] }));
server.registerTool("crash", { description: "Ends the server." }, async () => process.exit(7));
server.registerTool("sleep", { description: "Sleeps." }, async () => new Promise(() => {}));
server.registerTool("question", { description: "Asks." }, async () => {
  const answer = await server.server.elicitInput({ message: "Which colour?", requestedSchema: { type: "object", properties: { colour: { type: "string" } } } });
  return text(answer.action);
});
server.registerTool("register", { description: "Registers the user for a conference." }, async () => {
  const answer = await server.server.elicitInput({
    message: "Who\u001b]0;evil\u0007 are you?",
    requestedSchema: {
      type: "object",
      properties: {
        name: { type: "string", title: "Full name", minLength: 2 },
        talks: { type: "integer", minimum: 1, maximum: 9, default: 3 },
        meal: { type: "string", oneOf: [{ const: "v", title: "vegetarian" }, { const: "f", title: "fish" }] },
        dinner: { type: "boolean", default: true },
      },
      required: ["name", "talks"],
    },
  });
  if (process.env.ANSWERS) appendFileSync(process.env.ANSWERS, JSON.stringify(answer) + "\n");
  return text("registration: " + answer.action);
});
server.registerTool("sign_in", { description: "Signs the user in." }, async () => {
  const answer = await server.server.elicitInput({ mode: "url", message: "Sign in to go on.", url: "https://login.example.com/start?state=4711", elicitationId: "e1" });
  return text("sign in: " + answer.action);
});
server.registerTool("capabilities", { description: "Returns what the client offers." }, async () => text(JSON.stringify(server.server.getClientCapabilities())));
server.registerTool("roots", { description: "Asks for the client's directories." }, async () => text(String(await server.server.listRoots().catch(String))));
server.registerTool("sampling", { description: "Asks for an answer of the client's model." }, async () =>
  text(String(await server.server.createMessage({ messages: [{ role: "user", content: { type: "text", text: "spend" } }], maxTokens: 10 }).catch(String))));
const said = (role, text) => ({ role, content: { type: "text", text } });
server.registerPrompt("review", { description: "Reviews a file.", argsSchema: { file: z.string().describe("the file"), tone: z.string().optional() } },
  ({ file, tone }) => ({ messages: [said("user", `Review ${file}, ${tone ?? "kindly"}.`), said("assistant", "I will.")] }));
server.registerPrompt("plain words", {}, () => ({ messages: [
  said("user", "Look at this: !`touch evil` $1 @/etc/hostname"),
  { role: "user", content: { type: "image", mimeType: "image/png", data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==" } },
] }));
server.registerPrompt("broken", {}, () => { throw new Error("no such thing"); });
await server.connect(new StdioServerTransport());
