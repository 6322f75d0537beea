/** docs/reference/command-line.md is what the commands say of themselves. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command, Option } from "commander";
import { expect, test } from "vitest";
import { createProgram } from "../../src/cli/main.js";
import { repositoryRoot } from "../helpers/fixtures.js";

const FILE = join(repositoryRoot(), "docs/reference/command-line.md");

/** Flags that stand in one table for all commands that have them. */
const ENGINE_GROUP = "Engine:";

const escaped = (text: string): string => text.replace(/\|/g, "\\|").replace(/</g, "&lt;");

function defaultOf({ description, defaultValue, defaultValueDescription, envVar }: Option): string {
  const isSaid = /\(default: /.test(description);
  const isNone = isSaid || defaultValue === undefined || (Array.isArray(defaultValue) && defaultValue.length === 0);
  const value = defaultValueDescription ?? (isNone || defaultValue === "" ? "" : `\`${String(defaultValue)}\``);
  return [value, ...(envVar === undefined ? [] : [`env: \`${envVar}\``])].filter((part) => part !== "").join("; ");
}

function flagTable(options: readonly Option[]): string[] {
  const rows = options.map(
    (option) =>
      `| \`${option.flags.replace(/\|/g, "\\|")}\` | ${escaped(option.description)} | ${escaped(defaultOf(option))} |`,
  );
  return ["| Flag | Meaning | Default |", "| --- | --- | --- |", ...rows, ""];
}

const optionsOf = (command: Command): readonly Option[] => command.options.filter(({ hidden }) => !hidden);
const isOfEngine = ({ helpGroupHeading }: Option): boolean => helpGroupHeading === ENGINE_GROUP;

/** A sentence as prose: at most 100 columns a line. */
function wrapped(text: string): string[] {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1)!;
    if (last === "") lines[lines.length - 1] = word;
    else if (`${last} ${word}`.length <= 100) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** Commands that do something, with the words before their flags. */
function leavesOf(command: Command, words: readonly string[] = []): { words: string; command: Command }[] {
  const inner = command.commands.flatMap((each) => leavesOf(each, [...words, each.name()]));
  const isLeaf = command.commands.length === 0 || command.registeredArguments.length > 0 || words.join() === "cache";
  const hasAction = isLeaf || optionsOf(command).length > 0;
  return [...(words.length > 0 && hasAction ? [{ words: words.join(" "), command }] : []), ...inner];
}

async function reference(): Promise<string> {
  const leaves = leavesOf(await createProgram([]));
  const byFlag = new Map(
    leaves.flatMap(({ command }) =>
      optionsOf(command)
        .filter(isOfEngine)
        .map((o) => [o.flags, o]),
    ),
  );
  const lines = ["| Command | |", "| --- | --- |"];
  for (const { words, command } of leaves) {
    const anchor = words.replaceAll(" ", "-");
    lines.push(`| [\`${words}\`](#${anchor}) | ${escaped(command.description())} |`);
  }
  lines.push("", "## Engine flags", "");
  lines.push(
    ...wrapped(
      `Of ${leaves
        .filter(({ command }) => optionsOf(command).some(isOfEngine))
        .map(({ words }) => `\`${words}\``)
        .join(", ")}.`,
    ),
    "",
  );
  lines.push(...flagTable([...byFlag.values()]));
  for (const { words, command } of leaves) {
    const [usage, own] = [
      `millrace ${words} ${command.usage()}`,
      optionsOf(command).filter((option) => !isOfEngine(option)),
    ];
    lines.push(`## ${words}`, "", ...wrapped(escaped(command.description())), "", `\`${usage}\``, "");
    if (command.registeredArguments.length > 0) {
      lines.push("| Argument | Meaning |", "| --- | --- |");
      for (const argument of command.registeredArguments)
        lines.push(`| \`${argument.name()}\` | ${escaped(argument.description)} |`);
      lines.push("");
    }
    if (own.length > 0) lines.push(...flagTable(own));
    if (optionsOf(command).some(isOfEngine)) lines.push("It also takes the [engine's flags](#engine-flags).", "");
  }
  return lines.join("\n").trimEnd();
}

test("docs/reference/command-line.md has every command and flag (UPDATE_DOCS=1 writes them)", async () => {
  const commands = await reference();
  const text = readFileSync(FILE, "utf8");
  const written = text.replace(
    /<!-- commands -->[\s\S]*<!-- \/commands -->/,
    () => `<!-- commands -->\n${commands}\n<!-- /commands -->`,
  );
  if (process.env.UPDATE_DOCS === "1") writeFileSync(FILE, written);
  expect(readFileSync(FILE, "utf8")).toBe(written);
});

test("--json prints in every command that has it, and files have flags of other names", async () => {
  const leaves = leavesOf(await createProgram([]));
  const odd = leaves.filter(({ command }) => command.options.some((o) => o.long === "--json" && !o.isBoolean()));
  expect(odd.map(({ words }) => words)).toEqual([]);
});
