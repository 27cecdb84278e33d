// tap copies a stream, calls each with its lines, and writes them behind mark to the file
// of $LINES.
import fs from "node:fs";
import { Transform } from "node:stream";

export const tap = (mark, each = () => {}) => {
  let begun = ""; // of a line whose end has not come
  return new Transform({
    transform(chunk, _, done) {
      const lines = (begun + chunk.toString("latin1")).split("\n");
      begun = lines.pop();
      for (const line of lines) {
        if (line) fs.appendFileSync(process.env.LINES, mark + line + "\n", "latin1");
        if (line) each(line);
      }
      done(null, chunk);
    },
  });
};
