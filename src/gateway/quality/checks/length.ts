/** The answer is complete: neither empty nor cut by a limit of tokens. */
import { type Check, yesOrNo } from "./check.js";

export const length: Check = ({ answer: { text, end, calls } }) => {
  if (end === "length") return yesOrNo(true, "cut by a limit of tokens");
  return yesOrNo(end === "stop" && text.trim() === "" && calls.length === 0, "empty");
};
