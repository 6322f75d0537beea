/** The visitor's feedback on an answer: shown at once, and withdrawn if the server refuses it. */
import { call } from "../api/client.js";
import { errorText } from "../parts/load.js";
import { problem, setFeedback } from "./chat-state.js";
import type { Feedback, Rating } from "./conversation.js";

const NOT_TAKEN = "Your word on the answer was not taken";

/** The server keeps the last feedback to arrive, so calls run one after another. */
let last: Promise<void> = Promise.resolve();

function tell(before: Feedback, said: Feedback, path: string, json?: object): Promise<void> {
  setFeedback(said);
  last = last.then(async () => {
    try {
      await call(path, { method: "POST", ...(json === undefined ? {} : { json }) });
      if (problem.value?.startsWith(NOT_TAKEN)) problem.value = undefined;
    } catch (thrown) {
      setFeedback(before, said);
      problem.value = `${NOT_TAKEN}: ${errorText(thrown)}`;
    }
  });
  return last;
}

/** @param rating the same rating again withdraws it */
export async function rate(before: Feedback, rating: Rating): Promise<void> {
  const { rating: ratingBefore, correction: _correction, ...bare } = before;
  const isTakenBack = ratingBefore === rating;
  // The server keeps the last feedback on a request: a score without a rating stands for none.
  const word = isTakenBack ? { score: 0 } : { rating };
  const said = isTakenBack ? bare : { ...bare, rating };
  await tell(before, said, "v1/feedback", { request_id: before.requestId, ...word });
}

/** Sends the visitor's version of the right answer. */
export async function correct(before: Feedback, correction: string): Promise<void> {
  const word = { request_id: before.requestId, rating: "down", correction };
  await tell(before, { ...before, rating: "down", correction }, "v1/feedback", word);
}

/** Reports a cached answer to another question: the server drops it, and counts it against its cache. */
export async function reportWrong(before: Feedback): Promise<void> {
  await tell(before, { ...before, isWrong: true }, `v1/cache/${before.cacheId}/wrong`);
}
