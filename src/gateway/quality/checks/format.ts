/**
 * The answer has the form that the request asks for; arguments of calls are JSON objects; code fences are closed. Does
 * not apply if there is none of these.
 */
import { isPlainObject } from "../../../core/is-plain-object.js";
import { formProblem } from "../../cascade/answer-form.js";
import { type Check, yesOrNo } from "./check.js";

function isObject(json: string): boolean {
  try {
    const value: unknown = JSON.parse(json);
    return isPlainObject(value);
  } catch {
    return false;
  }
}

/** A fence of the same sign and at least the same length closes a fence (CommonMark 0.31, section 4.5). */
function hasOpenFence(text: string): boolean {
  let open = "";
  for (const [, fence, info] of text.matchAll(/^ {0,3}(`{3,}|~{3,})([^\n]*)$/gm)) {
    if (open === "") {
      if (fence![0] !== "`" || !info!.includes("`")) open = fence!;
    } else if (fence![0] === open[0] && fence!.length >= open.length && info!.trim() === "") open = "";
  }
  return open !== "";
}

export const format: Check = ({ format: wanted, answer: { text, calls, end } }) => {
  const asksForm = wanted !== undefined;
  const hasFence = /^ {0,3}(?:```|~~~)/m.test(text);
  if (!asksForm && calls.length === 0 && !hasFence) return undefined;
  // Another check reports an answer that was cut or withheld.
  if (end === "length" || end === "refusal") return undefined;
  if (calls.some((json) => json.trim() !== "" && !isObject(json)))
    return yesOrNo(true, "arguments of a call are no JSON");
  if (asksForm && calls.length === 0) {
    const problem = formProblem({ response_format: wanted }, text);
    return yesOrNo(problem !== undefined, problem);
  }
  return yesOrNo(hasOpenFence(text), "a code fence is not closed");
};
