import { expect, test } from "vitest";
import { judgeByChecks, judgeByCommand } from "./judge.js";
import { parsePrompts } from "./prompts.js";

const chat = {
  messages: [
    { role: "user", content: "2 + 2?" },
    { role: "assistant", content: "4" },
  ],
};
const [prompt] = parsePrompts(JSON.stringify({ ...chat, check: { kind: "number", value: 4 } }), "file");
const items = ["It is 4", "5"].map((answer) => ({ prompt: prompt!, answer }));
const signal = new AbortController().signal;
/** A command that works in the shell of every system with node. */
const script = (code: string): string => `"${process.execPath}" -e "${code}"`;

test("checks of the prompts judge answers", async () => {
  expect(await judgeByChecks(items, signal)).toEqual([
    { score: 1, exact: true },
    { score: 0, exact: false },
  ]);
});

test("a command reads all answers as JSON lines and writes a score for each", async () => {
  const code =
    "let t='';process.stdin.on('data',d=>t+=d).on('end',()=>{for(const l of t.trim().split('\\n')){const x=JSON.parse(l);" +
    "console.log(x.prompt[0].content==='2 + 2?'&&x.answer.includes(x.expected)?0.75:0)}})";
  expect(await judgeByCommand(script(code))(items, signal)).toEqual([
    { score: 0.75, exact: false },
    { score: 0, exact: false },
  ]);
});

test.each([
  ["process.exit(3)", /exit code 0 from the scorer, got 3/],
  ["console.log(1)", /2 lines from the scorer, got 1/],
  ["console.log('1\\n2')", /0 to 1 from the scorer, got "2" in line 2/],
  ["console.log('1\\nfine')", /got "fine" in line 2/],
])("a scorer that does %s is refused", async (code, message) => {
  const failure = judgeByCommand(script(code))(items, signal);
  await expect(failure).rejects.toMatchObject({ code: "scorer_failed", message: expect.stringMatching(message) });
});
