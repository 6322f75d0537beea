/** Every command of ours in a shell block of the documentation is one that our command line takes. */
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { createProgram } from "../../src/cli/main.js";
import { allPages, blocksOf, commandsIn, inlineCommandsOf, REASONS } from "./shell-blocks.js";

const blocks = allPages().flatMap(blocksOf);

/** Reads arguments as the command line does, and does nothing. */
async function parse(args: readonly string[]): Promise<void> {
  const isServe = args.length === 0 || args[0]!.startsWith("-");
  const words = isServe ? ["serve", ...args] : [...args];
  const program = await createProgram(words);
  const silence = (command: Command): void => {
    command.action(() => {}).configureOutput({ outputError: () => {}, writeErr: () => {}, writeOut: () => {} });
    for (const inner of command.commands) silence(inner);
  };
  for (const command of program.commands) silence(command);
  await program.parseAsync(words, { from: "user" });
}

describe("blocks", () => {
  test("are found", () => expect(blocks.length).toBeGreaterThan(25));

  test("are run, or have one of the known reasons", () => {
    const unknown = blocks.filter(
      ({ reason }) => reason !== undefined && !(REASONS as readonly string[]).includes(reason),
    );
    expect(unknown).toEqual([]);
  });
});

describe("commands in a text", () => {
  test.each([
    ["millrace plan --model 'a b' --hardware h100x2 > out", [["plan", "--model", "a b", "--hardware", "h100x2"]]],
    ["npm start -- --model x && npm -s start", [["--model", "x"], []]],
    [
      "npm run bench:peers -- --rounds 2 \\\n  --json a.json",
      [["bench", "peers", "--rounds", "2", "--json", "a.json"]],
    ],
    [
      "for i in 1 2; do npx millrace serve --port $i & done # millrace no",
      [
        ["serve", "--port", "1"],
        ["serve", "--port", "2"],
      ],
    ],
    ["cat <<'X' | other\nmillrace no\nX\nmillrace yes", [["yes"]]],
  ])("%s", (text, expected) => {
    // The order of commands in the background is anybody's.
    expect(commandsIn(text).sort()).toEqual(expected.sort());
  });
});

test("a flag that we do not have is not taken", async () => {
  await expect(parse(["plan", "--modle", "a"])).rejects.toThrow(/unknown option '--modle'/);
  await expect(parse(["--max-seqs", "3"])).rejects.toThrow();
});

test.each(blocks.map((block) => [`${block.page}:${block.line}`, block] as const))("%s", async (_, { text }) => {
  for (const args of commandsIn(text)) {
    // A dot dot dot stands for arguments that the page has said before.
    if (args.some((arg) => arg.includes("…"))) continue;
    await expect(parse(args), args.join(" ")).resolves.toBeUndefined();
  }
});

/** A sentence names a command without all that the command needs. */
const LEFT_OUT = [
  "commander.missingMandatoryOptionValue",
  "commander.missingArgument",
  "commander.optionMissingArgument",
  "commander.help",
  "commander.helpDisplayed",
];

const inline = allPages().flatMap((page) => inlineCommandsOf(page).map((command) => [page, command] as const));

test("commands are found in the text, too", () => expect(inline.length).toBeGreaterThan(60));

test.each(inline)("%s: %s", async (_, command) => {
  const [args = []] = commandsIn(command);
  const problem = await parse(args).then(
    () => undefined,
    (thrown: { readonly code?: string }) => thrown.code ?? String(thrown),
  );
  if (problem !== undefined) expect(LEFT_OUT, problem).toContain(problem);
});
