// A foreign MCP client: it starts the server of its arguments and uses it over stdio.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "foreign", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const call = async (name, input) => {
  const result = await client.callTool({ name, arguments: input });
  return (result.isError ? "isError " : name + " ") + result.content[0].text;
};
console.log("tools", (await client.listTools()).tools.map((t) => t.name).join(" "));
console.log(await call("memory_store", { text: "The answer is 42." }));
console.log(await call("ask", { prompt: "What is the answer?" }));
console.log(await call("ask", { prompt: " " }));
await client.callTool({ name: "no_such_tool", arguments: {} }).catch((err) => console.log("unknown", err.code));
await client.close();
