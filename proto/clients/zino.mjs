#!/usr/bin/env node
// Make one request to a service of Zino and print each packet of the answer.
//
// usage: zino.mjs SOCKET '{"type":"ping"}'
//
// The exit status is 1 after an error. The protocol: ../PROTOCOL.md
import net from "node:net";

// ask calls onPacket with the text of each packet that answers the request, up
// to the terminal one, and resolves to that one, decoded.
function ask(path, request, onPacket) {
  return new Promise((resolve, reject) => {
    const payload = Buffer.from(request);
    const head = Buffer.alloc(4);
    head.writeUInt32BE(payload.length);
    const socket = net.connect(path, () => socket.write(Buffer.concat([head, payload])));
    let received = Buffer.alloc(0);
    socket.on("data", (data) => {
      received = Buffer.concat([received, data]);
      while (received.length >= 4 && received.length >= 4 + received.readUInt32BE()) {
        const end = 4 + received.readUInt32BE();
        const text = received.toString("utf8", 4, end);
        received = received.subarray(end);
        onPacket(text);
        const packet = JSON.parse(text);
        if (packet.type !== "chunk" && packet.type !== "keepalive") {
          socket.end();
          return resolve(packet);
        }
      }
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the service hung up before its answer was complete")));
  });
}

const [path, request] = process.argv.slice(2);
if (request === undefined) {
  console.error(`usage: zino.mjs SOCKET '{"type":"ping"}'`);
  process.exit(2);
}
try {
  const last = await ask(path, request, (text) => console.log(text));
  process.exitCode = last.type === "error" ? 1 : 0;
} catch (err) {
  console.error(`zino.mjs: ${path}: ${err.message}`);
  process.exitCode = 1;
}
