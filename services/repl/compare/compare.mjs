// Counts what a model reads to find and fix three faults of a page: with the page tools
// of Zino, and with two public MCP servers for browsers. Prints a Markdown table.
//
//   node compare.mjs BIN MODULES
//
// BIN contains Zino's programs, MODULES the packages @playwright/mcp and
// chrome-devtools-mcp (node_modules). See make compare-pages.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const [bin, modules] = process.argv.slice(2).map((p) => path.resolve(p));
const chromium = spawnSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).stdout.trim();
const shop = path.join(import.meta.dirname, "shop");
const dir = mkdtempSync(path.join(tmpdir(), "zc"));
const children = [];

// Each fault is a change of app.js. "names" is what the model must read to find it.
const faults = [
  { name: "a failing fetch", good: "?currency=", bad: "?curency=", names: /curency/ },
  { name: "a wrong import", good: "import { total, ", bad: "import { totl as total, ", names: /totl/ },
  { name: "a broken handler", good: "cart.items.push", bad: "cart.item.push", names: /app\.js:12/ },
];

// The application's server, with the present fault.
let fault = null, loads = 0;
const types = { html: "text/html", js: "text/javascript", css: "text/css", json: "application/json" };
const app = http.createServer((request, response) => {
  const url = new URL(request.url, "http://app");
  if (url.pathname === "/api/cart") {
    const ok = url.searchParams.has("currency");
    response.writeHead(ok ? 200 : 400, { "content-type": types.json });
    response.end(ok ? '{"items":[]}' : '{"error":"unknown parameter"}');
    return;
  }
  const file = { "/": "index.html", "/api/products": "products.json" }[url.pathname] ?? url.pathname.slice(1);
  if (!["index.html", "app.js", "lib.js", "style.css", "products.json"].includes(file)) {
    response.writeHead(404).end();
    return;
  }
  let text = readFileSync(path.join(shop, file), "utf8");
  if (file === "app.js") {
    if (fault && !text.includes(fault.good)) throw new Error(`app.js has no ${fault.good}`);
    text = fault ? text.replace(fault.good, fault.bad) : text;
    loads++;
  }
  response.writeHead(200, { "content-type": types[file.split(".")[1]], "cache-control": "no-store" });
  response.end(text);
});

async function listen(server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${server.address().port}`;
}

function start(command, args, options) {
  const child = spawn(command, args, options);
  children.push(child);
  return child;
}

async function until(what, condition) {
  for (let i = 0; i < 600; i++) {
    const value = await condition();
    if (value) return value;
    await sleep(50);
  }
  throw new Error(`not seen: ${what}`);
}

// An agent has call(tool, arguments), which returns what the model reads. run looks at
// the page, presses a button, has the fault fixed, and looks again.
async function measure(agent, sequence) {
  const rows = [];
  for (const f of faults) {
    fault = f;
    let bytes = 0, calls = 0, found = false;
    const call = async (tool, args = {}) => {
      const text = await agent.call(tool, args);
      if (process.env.VERBOSE) console.error(`--- ${f.name}: ${tool} ${JSON.stringify(args)}\n${text}`);
      bytes += Buffer.byteLength(text);
      calls++;
      found ||= fault !== null && f.names.test(text);
      return text;
    };
    await sequence(call, () => { fault = null; });
    rows.push({ bytes, calls, found });
  }
  return rows;
}

// An MCP server over standard input and output.
async function mcp(program, args) {
  const child = start("node", [path.join(modules, program), ...args], { cwd: dir, stdio: ["pipe", "pipe", "ignore"], env: { ...process.env, HOME: dir } });
  const waiting = new Map();
  let rest = "", last = 0;
  child.stdout.on("data", (data) => {
    const lines = (rest + data).split("\n");
    rest = lines.pop();
    for (const line of lines.filter(Boolean)) {
      const message = JSON.parse(line);
      waiting.get(message.id)?.(message);
    }
  });
  const send = (message) => child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
  const request = async (method, params) => {
    const id = ++last;
    const answer = new Promise((resolve) => waiting.set(id, resolve));
    send({ id, method, params });
    const { result, error } = await answer;
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  };
  await request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "compare", version: "1" } });
  send({ method: "notifications/initialized" });
  const { tools } = await request("tools/list", {});
  return {
    tools: Buffer.byteLength(JSON.stringify(tools)),
    async call(name, args) {
      const { content, isError } = await request("tools/call", { name, arguments: args });
      const text = content.map((part) => part.text ?? `[${part.type}]`).join("\n");
      if (isError) throw new Error(`${program}: ${name}: ${text}`);
      return text;
    },
    stop: () => child.kill(),
  };
}

async function playwright(url) {
  const agent = await mcp("@playwright/mcp/cli.js", ["--headless", "--no-sandbox", "--isolated", "--browser", "chromium", "--executable-path", chromium]);
  const rows = await measure(agent, async (call, fix) => {
    await call("browser_navigate", { url });
    const snapshot = await call("browser_snapshot");
    await call("browser_console_messages");
    await call("browser_network_requests");
    const target = snapshot.match(/button "Add Plums".*\[ref=(\w+)\]/)?.[1];
    if (target) {
      await call("browser_click", { element: "Add Plums", target });
      await call("browser_console_messages");
      await call("browser_snapshot");
    }
    fix();
    await call("browser_navigate", { url });
    await call("browser_console_messages");
    await call("browser_snapshot");
  });
  agent.stop();
  return { tools: agent.tools, rows };
}

async function devtools(url) {
  const agent = await mcp("chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js", ["--headless", "--isolated", "--executablePath", chromium, "--chromeArg=--no-sandbox", "--no-usage-statistics"]);
  const rows = await measure(agent, async (call, fix) => {
    const pages = await call("new_page", { url });
    const pageId = Number(pages.match(/(\d+): .*\[selected\]/)[1]);
    const snapshot = await call("take_snapshot", { pageId });
    let messages = await call("list_console_messages", { pageId });
    await call("list_network_requests", { pageId });
    const uid = snapshot.match(/uid=(\S+) button "Add Plums"/)?.[1];
    if (uid) {
      await call("click", { pageId, uid });
      messages = await call("list_console_messages", { pageId });
      await call("take_snapshot", { pageId });
    }
    const error = [...messages.matchAll(/msgid=(\d+) \[error\]/g)].at(-1);
    if (error) await call("get_console_message", { pageId, msgid: Number(error[1]) }); // the list has no places
    fix();
    await call("navigate_page", { pageId, type: "reload" });
    await call("list_console_messages", { pageId });
    await call("take_snapshot", { pageId });
  });
  agent.stop();
  return { tools: agent.tools, rows };
}

// Zino: zino exec runs the agent, whose provider is this program. A call of a tool is an
// answer of the model, its result comes with the next request.
async function zino(origin) {
  const runtime = path.join(dir, "run"), work = path.join(dir, "work"), profile = path.join(dir, "profile");
  [runtime, work, profile].forEach((d) => mkdirSync(d, { mode: 0o700 }));
  let requests = [], arrived = () => {};
  const provider = http.createServer(async (request, response) => {
    let body = "";
    for await (const data of request) body += data;
    if (!request.url.endsWith("/chat/completions")) {
      response.writeHead(404).end(); // other forms of requests
      return;
    }
    requests.push({ body: JSON.parse(body), response });
    arrived();
  });
  const env = {
    PATH: `${bin}:${process.env.PATH}`, HOME: dir, XDG_RUNTIME_DIR: runtime, TMPDIR: runtime, LC_ALL: "C.UTF-8", TERM: "dumb",
    OPENAI_API_KEY: "none", OPENAI_BASE_URL: (await listen(provider)) + "/v1",
  };
  const repl = start("zino", ["repl", "--http", "127.0.0.1:0", "--proxy", origin], { cwd: work, env, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  repl.stderr.on("data", (data) => { said += data; });
  const address = await until("the address of the proxy", () => said.match(/Open (http:\S+?): /)?.[1]);

  const request = async () => {
    if (requests.length === 0) await new Promise((resolve) => { arrived = resolve; });
    return requests.shift();
  };
  const answer = (response, delta, reason) => {
    const event = (choice) => response.write(`data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, ...choice }] })}\n\n`);
    response.writeHead(200, { "content-type": "text/event-stream" });
    event({ delta });
    event({ delta: {}, finish_reason: reason });
    response.end("data: [DONE]\n\n");
  };
  let turn, definitions, id = 0;
  const agent = {
    async call(name, args) {
      definitions = turn.body.tools.filter((tool) => tool.function.name.startsWith("page_"));
      if (!definitions.some((tool) => tool.function.name === name)) throw new Error(`the agent has no tool ${name}`);
      answer(turn.response, { role: "assistant", tool_calls: [{ index: 0, id: `c${++id}`, type: "function", function: { name, arguments: JSON.stringify(args) } }] }, "tool_calls");
      turn = await request();
      const text = turn.body.messages.at(-1).content;
      if (name !== "page_eval" && !text.startsWith('{"ok":true')) throw new Error(`${name}: ${text}`);
      return text;
    },
  };
  const rows = await measure(agent, async (call, fix) => {
    const seen = loads;
    const browser = start(chromium, ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", `--user-data-dir=${profile}/${id}`, address], { stdio: "ignore", env: { ...process.env, HOME: dir } });
    await until("the page", () => loads > seen && /"name":"shop"/.test(spawnSync("zino", ["--format", "json", "pages"], { env, encoding: "utf8" }).stdout));
    await sleep(500); // the page's own requests
    const run = start("zino", ["exec", "--sandbox", "off", "-p", "The page shop does not work. Why?"], { cwd: work, env, stdio: ["ignore", "ignore", process.env.VERBOSE ? "inherit" : "ignore"] });
    turn = await Promise.race([request(), once(run, "exit").then(() => { throw new Error("zino exec has ended"); })]);
    const list = await call("page_list");
    const page = list.match(/"id":"(\w+)","name":"shop"/)[1];
    const log = await call("page_log", { page });
    await call("page_outline", { page });
    const press = 'zino.click(zino.find("Add Plums")); document.querySelector("#cart").textContent';
    await call("page_eval", { page, code: press }); // with what it logs
    fix();
    const before = loads;
    await call("page_eval", { page, code: "location.reload()" });
    await until("the reload", () => loads > before);
    await sleep(500);
    await call("page_log", { page, after: log.match(/"next":"([^"]+)"/)[1] });
    const shown = await call("page_eval", { page, code: press });
    if (!shown.includes("1 items, 2.99 EUR")) throw new Error(`the page is not repaired: ${shown}`);
    answer(turn.response, { role: "assistant", content: "It works now." }, "stop");
    await once(run, "exit");
    browser.kill();
    await once(browser, "exit");
    await until("the page is gone", () => !/"name":"shop"/.test(spawnSync("zino", ["--format", "json", "pages"], { env, encoding: "utf8" }).stdout));
  });
  repl.kill("SIGINT");
  provider.close();
  return { tools: Buffer.byteLength(JSON.stringify(definitions.map((tool) => tool.function))), rows };
}

const version = (name) => JSON.parse(readFileSync(path.join(modules, name, "package.json"), "utf8")).version;
const number = (n) => n.toLocaleString("en");
const cell = (r) => `${number(r.bytes)} B, ${number(Math.round(r.bytes / 4))} tokens, ${r.calls} calls${r.found ? "" : ", place not named"}`;

let status = 0;
process.on("SIGTERM", () => children.forEach((child) => child.kill("SIGKILL")));
try {
  const origin = await listen(app);
  const results = [
    ["Zino", await zino(origin)],
    [`@playwright/mcp ${version("@playwright/mcp")}`, await playwright(origin + "/")],
    [`chrome-devtools-mcp ${version("chrome-devtools-mcp")}`, await devtools(origin + "/")],
  ];
  console.log(`| read by the model | ${results.map(([name]) => name).join(" | ")} |`);
  console.log(`|---|${results.map(() => "---|").join("")}`);
  console.log(`| definitions of the tools | ${results.map(([, r]) => `${number(r.tools)} B`).join(" | ")} |`);
  faults.forEach((f, i) => console.log(`| ${f.name} | ${results.map(([, r]) => cell(r.rows[i])).join(" | ")} |`));
  const sum = ([, r]) => r.rows.reduce((n, row) => n + row.bytes, 0);
  console.log(`| all three | ${results.map((r) => `${number(sum(r))} B, ${(sum(r) / sum(results[0])).toFixed(1)} times`).join(" | ")} |`);
} catch (error) {
  console.error(error);
  status = 1;
}
for (const child of children) child.kill("SIGKILL");
await sleep(200); // they write into it until they have ended
rmSync(dir, { recursive: true, force: true });
process.exit(status);
