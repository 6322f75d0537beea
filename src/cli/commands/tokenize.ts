/** `millrace tokenize`: the ids of a text, exactly as the model sees them. */
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { Command, Option } from "commander";
import { MillraceError } from "../../core/errors.js";
import type { Tokenizer } from "../../text/tokenizer.js";
import { formatTable } from "../format.js";
import { loadTextSide, locateModel, modelOption } from "../model.js";
import { downloadStages } from "../stages.js";

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
    .description("Print a text's token ids.")
    .addOption(modelOption())
    .addOption(new Option("--text <text>", "the text").conflicts("textFile"))
    .option("--text-file <file>", "a file with the text, taken as it is to the last newline (default: stdin)")
    .option("--json", "ids only, as one JSON array")
    .option("--add-special", "add BOS and EOS where the model asks for them")
    .option("--no-parse-special", "take special tokens written in the text as plain text")
    .action(runTokenize);
}

/** Throws file_unreadable. */
export function readText(flags: Pick<TokenizeFlags, "text" | "textFile">): string {
  if (flags.text !== undefined) return flags.text;
  const source = flags.textFile ?? process.stdin.fd;
  try {
    return readFileSync(source, "utf8");
  } catch (cause) {
    const name = flags.textFile ?? "stdin";
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new MillraceError("file_unreadable", `expected a text in ${name}, got ${reason}`, { cause });
  }
}

async function runTokenize(flags: TokenizeFlags): Promise<void> {
  const text = readText(flags);
  const { path } = await locateModel(flags.model, downloadStages(flags.model));
  const { tokenizer } = await loadTextSide(path);
  const ids = tokenizer.encode(text, { addSpecial: flags.addSpecial ?? false, parseSpecial: flags.parseSpecial });
  process.stdout.write(`${flags.json ? JSON.stringify(ids) : tableOf(ids, tokenizer)}\n`);
}

function tableOf(ids: readonly number[], tokenizer: Tokenizer): string {
  const rows = ids.map((id) => [String(id), shownText(tokenizer.tokenBytes(id))]);
  return formatTable([["id", "text"], ...rows, [`${ids.length} tokens`]]);
}

/** Quoted text, or the bytes where a token holds only a part of a character. */
function shownText(bytes: Uint8Array): string {
  if (isUtf8(bytes)) return JSON.stringify(Buffer.from(bytes).toString("utf8"));
  return Array.from(bytes, (byte) => `<${byte.toString(16).toUpperCase().padStart(2, "0")}>`).join("");
}
