// Plays steps in a browser for the tests in Go. One line of JSON on standard input asks for a step,
// {"step": "file.function", "args": {...}}; one line on standard output answers it, {"value": ...} or {"error": "..."}.
// The browser, its page and what is open in it stay from step to step, until standard input ends.
//
// A step fails, whatever it found, when a page of the console broke its content policy, asked another server for
// something, or threw.
import { createInterface } from "node:readline";
import { Stage } from "./stage.mjs";

const [chromium, base, artifacts] = process.argv.slice(2);
const stage = await Stage.open({ chromium, base, artifacts });
const answer = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

for await (const line of createInterface({ input: process.stdin })) {
  const { step, args } = JSON.parse(line);
  const [file, name] = step.split(".");
  try {
    const steps = await import(`./${file}.mjs`);
    if (!steps[name]) throw new Error(`there is no step ${step}`);
    const value = await steps[name](stage, args ?? {});
    stage.complain();
    answer({ value: value ?? null });
  } catch (error) {
    answer({ error: `${step}: ${error.stack}\n${await stage.describe()}` });
  }
}
await stage.close();
