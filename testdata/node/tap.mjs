// tap copies a stream and writes its lines, each behind mark, to the file of $LINES.
import fs from "node:fs";
import { Transform } from "node:stream";

export const tap = (mark) => {
  let begun = ""; // of a line whose end has not come
  return new Transform({
    transform(chunk, _, done) {
      const lines = (begun + chunk.toString("latin1")).split("\n");
      begun = lines.pop();
      for (const line of lines) if (line) fs.appendFileSync(process.env.LINES, mark + line + "\n", "latin1");
      done(null, chunk);
    },
  });
};
