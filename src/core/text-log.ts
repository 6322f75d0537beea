/** The log for people: pino's JSON lines as time, level, message and fields. */
import { visible } from "./visible-text.js";

const LEVEL_NAMES: Readonly<Record<number, string>> = { 20: "debug", 30: "info", 40: "warn", 50: "error", 60: "fatal" };
const LEVEL_WIDTH = 5;
const RESET = "\u001b[0m";
const COLOURS: Readonly<Record<number, string>> = { 40: "\u001b[33m", 50: "\u001b[31m", 60: "\u001b[31m" };

function shownValue(value: string | number | boolean): string {
  const text = String(value);
  return /^[^\s"=]+$/.test(text) ? text : JSON.stringify(text);
}

/** Shows only numbers, words and texts: nested values are for programs. */
function shownFields(fields: Readonly<Record<string, unknown>>): string {
  return Object.entries(fields)
    .flatMap(([name, value]) => {
      const isPlain = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
      return isPlain ? [` ${name}=${shownValue(value)}`] : [];
    })
    .join("");
}

function shownError(err: unknown): string {
  if (typeof err !== "object" || err === null) return "";
  const { stack, message } = err as { readonly stack?: unknown; readonly message?: unknown };
  const lines = String(stack ?? message ?? "").split("\n");
  return lines.map((line) => `\n  ${visible(line)}`).join("");
}

/** @param line JSON from pino; other text is shown unchanged */
export function formatLogLine(line: string, hasColours: boolean): string {
  let record: Readonly<Record<string, unknown>>;
  try {
    record = JSON.parse(line) as typeof record;
  } catch {
    return line;
  }
  const { level, time, msg, err, ...fields } = record;
  const name = LEVEL_NAMES[Number(level)] ?? String(level);
  const colour = hasColours ? COLOURS[Number(level)] : undefined;
  const label = name.padEnd(LEVEL_WIDTH);
  const shownLabel = colour === undefined ? label : `${colour}${label}${RESET}`;
  const at = new Date(String(time)).toTimeString().slice(0, 8);
  return `${at} ${shownLabel} ${visible(String(msg ?? ""))}${visible(shownFields(fields))}${shownError(err)}\n`;
}
