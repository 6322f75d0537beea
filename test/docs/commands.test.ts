/** Every command of ours in a shell block of the documentation is one that our command line takes. */
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { createProgram } from "../../src/cli/main.js";
import { allPages, blocksOf, commandsIn, inlineCommandsOf, REASONS } from "./shell-blocks.js";

const blocks = allPages().flatMap(blocksOf);

/**
 * Reads arguments as the command line does, and does nothing.
 * @param isWhole whether all that a command must have is there
 */
async function parse(args: readonly string[], isWhole = true): Promise<void> {
  const isServe = args.length === 0 || args[0]!.startsWith("-");
  const words = isServe ? ["serve", ...args] : [...args];
  const program = await createProgram(words);
  const silence = (command: Command): void => {
    command.action(() => {}).configureOutput({ outputError: () => {}, writeErr: () => {}, writeOut: () => {} });
    // Commander would miss these options before it looks at those that it does not know.
    if (!isWhole) for (const option of command.options) option.mandatory = false;
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
    ["npm run bench:peers -- --rounds 2 \\\n  --out a.json", [["bench", "peers", "--rounds", "2", "--out", "a.json"]]],
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

/** What is wrong with a command in a sentence, which need not have all that the command needs; undefined: nothing. */
async function problemOf(args: readonly string[]): Promise<string | undefined> {
  const problem = await parse(args, false).then(
    () => undefined,
    (thrown: { readonly code?: string }) => thrown.code ?? String(thrown),
  );
  // Commander says these before it looks at the other arguments.
  if (problem === "commander.optionMissingArgument") return await problemOf(args.slice(0, -1));
  if (problem === "commander.helpDisplayed")
    return await problemOf(args.filter((arg) => arg !== "--help" && arg !== "-h"));
  return problem === "commander.missingArgument" || problem === "commander.help" ? undefined : problem;
}

test("a sentence may leave out what a command needs, and names no flag that the command does not have", async () => {
  for (const whole of ["image render", "image render --target", "plan --help", "bench", "convert"]) {
    expect(await problemOf(whole.split(" ")), whole).toBeUndefined();
  }
  for (const wrong of ["image render --for kubernetes", "plan --modle --model", "plan --modle --help"]) {
    expect(await problemOf(wrong.split(" ")), wrong).toBe("commander.unknownOption");
  }
});

const inline = allPages().flatMap((page) => inlineCommandsOf(page).map((command) => [page, command] as const));

test("commands are found in the text, too", () => expect(inline.length).toBeGreaterThan(60));

test.each(inline)("%s: %s", async (_, command) => {
  const [args = []] = commandsIn(command);
  expect(await problemOf(args)).toBeUndefined();
});
