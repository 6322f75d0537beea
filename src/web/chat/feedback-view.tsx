/** Below an answer: thumbs, a correction, and a button against a cached answer to another question. */
import { useSignal } from "@preact/signals";
import { session } from "../api/session.js";
import type { Feedback, Rating } from "./conversation.js";
import { correct, rate, reportWrong } from "./feedback.js";

const THUMB = "M2 10h4v11H2zM8 10l4-8a2.5 2.5 0 0 1 2.3 3L13.6 9H20a2 2 0 0 1 2 2.3l-1.3 8a2 2 0 0 1-2 1.7H8z";
const LABELS: Readonly<Record<Rating, string>> = { up: "Good answer", down: "Bad answer" };
/** Longest correction; the server accepts longer texts. */
const MOST_CHARACTERS = 4000;

function Thumb({ feedback, rating }: { readonly feedback: Feedback; readonly rating: Rating }) {
  return (
    <button
      type="button"
      class={`quiet thumb ${rating}`}
      aria-label={LABELS[rating]}
      title={LABELS[rating]}
      aria-pressed={feedback.rating === rating}
      onClick={() => void rate(feedback, rating)}
    >
      <svg viewBox="0 0 24 24" aria-hidden="true">
        <path d={THUMB} />
      </svg>
    </button>
  );
}

function Correction({ feedback }: { readonly feedback: Feedback }) {
  const text = useSignal(feedback.correction ?? "");
  const trimmed = text.value.trim();
  const isSent = trimmed === feedback.correction;
  const submit = (event: Event) => {
    event.preventDefault();
    if (trimmed !== "" && !isSent) void correct(feedback, trimmed);
  };
  return (
    <form class="correction" onSubmit={submit}>
      <input
        aria-label="The right answer, if you like"
        placeholder="The right answer, if you like"
        dir="auto"
        maxLength={MOST_CHARACTERS}
        value={text.value}
        onInput={({ currentTarget }) => {
          text.value = currentTarget.value;
        }}
      />
      <button type="submit" class="plain" disabled={trimmed === "" || isSent}>
        {isSent ? "Sent" : "Send correction"}
      </button>
    </form>
  );
}

export function FeedbackView({ feedback }: { readonly feedback: Feedback }) {
  const takesFeedback = session.value?.takes_feedback === true;
  if (!takesFeedback && feedback.cacheId === undefined) return null;
  return (
    <div class="feedback">
      {takesFeedback && <Thumb feedback={feedback} rating="up" />}
      {takesFeedback && <Thumb feedback={feedback} rating="down" />}
      {feedback.cacheId !== undefined && (
        <button
          type="button"
          class="plain"
          title="This is a kept answer to a question that seemed the same. The server drops it where it is wrong."
          disabled={feedback.isWrong === true}
          onClick={() => void reportWrong(feedback)}
        >
          {feedback.isWrong === true ? "Reported as wrong" : "Wrong answer"}
        </button>
      )}
      {takesFeedback && feedback.rating === "down" && <Correction feedback={feedback} />}
    </div>
  );
}
