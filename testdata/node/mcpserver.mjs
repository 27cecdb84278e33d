// A foreign MCP server for tests of zino-mcp, over stdio.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "foreign", version: "1" });
const text = (text) => ({ content: [{ type: "text", text }] });
server.registerTool("echo", { description: "Echoes.", inputSchema: { name: z.string() } }, async ({ name }) => text("hello " + name));
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
await server.connect(new StdioServerTransport());
