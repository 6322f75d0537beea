/**
 * Reads as many lines of a batch's files as the page shows. Clients and models wrote them, so the page treats all of it
 * as text.
 */
import { oneLine } from "../text/one-line.js";

/** The request in the first line of an input file. */
interface FirstLine {
  /** The path of the line's request, such as /v1/embeddings. */
  readonly url?: string;
  /** The reason why it is not a line of a batch. */
  readonly problem?: string;
}

interface ResultLine {
  readonly customId: string;
  /** HTTP status, or a word such as expired. */
  readonly status: string;
  readonly isError: boolean;
  readonly text: string;
}

type Json = Readonly<Record<string, unknown>>;

const objectOf = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : {});

function parsed(line: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param start of the file
 * @param isWhole whether that is all of it
 */
export function firstLineOf(start: string, isWhole: boolean): FirstLine {
  // Files from Windows begin with a byte order mark and end lines with two characters.
  const text = start.replace(/^\uFEFF/, "");
  const lines = text.split("\n");
  const index = lines.findIndex((each) => each.trim() !== "");
  if (index < 0) return { problem: isWhole ? "The file is empty." : "The file begins with blank lines only." };
  // A long line may continue after the part that was read: the server checks it.
  if (index === lines.length - 1 && !isWhole) return {};
  const line = parsed(lines[index]!);
  const where = `Line ${index + 1}`;
  if (line === undefined) return { problem: `${where} is no JSON object: each line of the file is one request.` };
  const { custom_id: id, url } = line;
  if (typeof id !== "string") return { problem: `${where} has no custom_id, by which its answer is found.` };
  if (typeof url !== "string") return { problem: `${where} has no url, such as /v1/chat/completions.` };
  return { url };
}

const firstOf = (value: unknown): Json => objectOf(Array.isArray(value) ? value[0] : undefined);
const textIn = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

/** The text of an answer of any endpoint; other bodies as JSON. */
function answerText(body: Json): string {
  const choice = firstOf(body.choices);
  const error = textIn(objectOf(body.error).message);
  const output = Array.isArray(body.output) ? body.output.map((each) => firstOf(objectOf(each).content).text) : [];
  const vectors = Array.isArray(body.data) && body.object === "list" ? `${body.data.length} results` : undefined;
  return (
    error ??
    textIn(objectOf(choice.message).content) ??
    textIn(choice.text) ??
    textIn(firstOf(body.content).text) ??
    output.find((each) => typeof each === "string") ??
    vectors ??
    JSON.stringify(body)
  );
}

function resultOf(line: Json): Omit<ResultLine, "customId"> {
  const { response, error, result } = line;
  if (result !== undefined) {
    const { type, message, error: refusal } = objectOf(result);
    const isError = type !== "succeeded";
    return {
      status: String(type),
      isError,
      text: isError && refusal === undefined ? "" : answerText(objectOf(refusal ?? message)),
    };
  }
  if (response === null || response === undefined) {
    const { code, message } = objectOf(error);
    return { status: String(code ?? "error"), isError: true, text: textIn(message) ?? "" };
  }
  const { status_code: status, body } = objectOf(response);
  const text = typeof body === "string" ? body : answerText(objectOf(body));
  return { status: String(status), isError: Number(status) >= 400, text };
}

/**
 * @param start of a file of results
 * @param isWhole whether that is all of it
 */
export function resultsOf(start: string, isWhole: boolean, atMost: number): readonly ResultLine[] {
  const lines = start.split("\n");
  // The last line may be incomplete.
  const whole = isWhole ? lines : lines.slice(0, -1);
  return whole
    .filter((each) => each.trim() !== "")
    .slice(0, atMost)
    .map((each) => {
      const line = parsed(each);
      if (line === undefined) return { customId: "–", status: "–", isError: false, text: oneLine(each) };
      const { status, isError, text } = resultOf(line);
      return { customId: oneLine(String(line.custom_id)), status: oneLine(status, 40), isError, text: oneLine(text) };
    });
}
