/** `millrace tokenize`: prints the token ids of a text, exactly as the model sees them. */

import { isUtf8 } from "node:buffer";
import { Command, Option } from "commander";
import { locateModel } from "../../formats/locate-model.js";
import { loadTextSide } from "../../text/text-side.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import { modelOption } from "../flags/model-option.js";
import { readInput, readPiped } from "../flags/read-input.js";
import { formatTable } from "../output/format.js";
import { downloadStages } from "../output/stages.js";

interface TokenizeFlags {
  readonly model?: string;
  readonly text?: string;
  readonly textFile?: string;
  readonly json?: boolean;
  readonly addSpecial?: boolean;
  readonly parseSpecial: boolean;
}

export function tokenizeCommand(): Command {
  return new Command("tokenize")
    .usage("[text] [options]")
    .description("Print the token ids of a text.")
    .addOption(modelOption())
    .addOption(new Option("--text <text>", "the text").conflicts("textFile"))
    .option("--text-file <file>", "file with the text, its last newline included (default: stdin)")
    .option("--json", "print the ids only, as one JSON array")
    .option("--add-special", "add BOS and EOS if the model asks for them")
    .option("--no-parse-special", "treat special tokens in the text as plain text")
    .action(runTokenize);
}

/** @param hint hint of the error for a missing text @throws file_unreadable, or invalid_option without any text */
export function readText(flags: Pick<TokenizeFlags, "text" | "textFile">, hint: string): string {
  if (flags.text !== undefined) return flags.text;
  if (flags.textFile !== undefined) return readInput(flags.textFile);
  return readPiped(hint);
}

async function runTokenize(flags: TokenizeFlags): Promise<void> {
  const text = readText(flags, "give --text, --text-file, or a text on stdin: echo hello | millrace tokenize");
  const { path } = await locateModel(flags.model, downloadStages(flags.model));
  const { tokenizer } = await loadTextSide(path);
  const ids = tokenizer.encode(text, { addSpecial: flags.addSpecial ?? false, parseSpecial: flags.parseSpecial });
  process.stdout.write(`${flags.json ? JSON.stringify(ids) : tableOf(ids, tokenizer)}\n`);
}

function tableOf(ids: readonly number[], tokenizer: Tokenizer): string {
  const rows = ids.map((id) => [String(id), shownText(tokenizer.tokenBytes(id))]);
  return formatTable([["id", "text"], ...rows, [`${ids.length} tokens`]]);
}

/** Quoted text; bytes for a token that contains only part of a character. */
function shownText(bytes: Uint8Array): string {
  if (isUtf8(bytes)) return JSON.stringify(Buffer.from(bytes).toString("utf8"));
  return Array.from(bytes, (byte) => `<${byte.toString(16).toUpperCase().padStart(2, "0")}>`).join("");
}
