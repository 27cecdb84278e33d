// A foreign ACP client: it starts the agent of its arguments, writes all lines of both
// directions to the file of $LINES, and keeps the updates that it gets.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { tap } from "./tap.mjs";

const [command, ...args] = process.argv.slice(2);
export const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const toAgent = tap("> ");
toAgent.pipe(child.stdin);

export const received = []; // lines of the agent

// connect makes a connection with an SDK.
export const connect = (acp) => acp.ndJsonStream(Writable.toWeb(toAgent), Readable.toWeb(child.stdout.pipe(tap("< ", (line) => received.push(line)))));

// send writes a line that no SDK would.
export const send = (line) => toAgent.write(line + "\n");

export const updates = [];
let waiting = [];
export const update = (u) => {
  updates.push(u.params.update);
  waiting = waiting.filter((w) => !w());
};

// seen waits for an update.
export const seen = (what) => new Promise((done) => {
  const check = () => updates.some(what) && (done(), true);
  if (!check()) waiting.push(check);
});
export const of = (kind) => updates.filter((u) => u.sessionUpdate === kind);
export const said = () => of("agent_message_chunk").map((u) => u.content.text).join("");
export const problem = (e) => `${e.code} ${e.message.split("\n")[0]}`;

// end closes the agent's standard input, and prints its exit status.
export const end = async () => {
  toAgent.end();
  console.log("exit", child.exitCode ?? await new Promise((done) => child.on("exit", done)));
};
