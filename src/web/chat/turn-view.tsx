/** One turn of a conversation, and the actions on the last one. */
import { useSignal } from "@preact/signals";
import { contextOf } from "../api/models.js";
import { CopyButton } from "../parts/copy.js";
import { JsonTree, parseTree } from "../text/json-tree.js";
import { MarkdownView } from "../text/markdown-view.js";
import { oneLine } from "../text/one-line.js";
import { drop, goOn, isAnswering, isBusy, modelOf, regenerate } from "./chat-state.js";
import { beginAnew, edit } from "./composer.js";
import {
  describeCost,
  describeSpeed,
  droppable,
  lastQuestion,
  type Pane,
  proposedDrop,
  type Trouble,
  type Turn,
} from "./conversation.js";
import { FeedbackView } from "./feedback-view.js";
import { TokenView } from "./token-view.js";

interface TurnProps {
  readonly pane: Pane;
  readonly paneIndex: number;
  readonly place: number;
  readonly format: string;
}

function troubleText({ trouble, error, content }: Turn, pane: Pane): string {
  const context = contextOf(modelOf(pane));
  const size = context === undefined ? "" : ` of ${context} tokens`;
  const subject = droppable(pane.turns).length > 0 || content !== "" ? "This conversation" : "This message";
  const texts: Readonly<Record<Trouble, string>> = {
    cut: "cut at the limit of tokens",
    full: "cut: the model's context is full",
    broken: "the connection broke: the answer is not whole",
    stopped: "stopped",
    "too-long": `${subject} is longer than the model's context${size}.`,
    failed: error ?? "no answer",
  };
  return trouble === undefined ? "" : texts[trouble];
}

/** The visitor sees and chooses the turns to drop. */
function DropChoice({ pane, paneIndex }: Pick<TurnProps, "pane" | "paneIndex">) {
  const chosen = useSignal<readonly number[]>(proposedDrop(pane.turns));
  const toggle = (place: number) => {
    chosen.value = chosen.value.includes(place)
      ? chosen.value.filter((one) => one !== place)
      : [...chosen.value, place];
  };
  const hasContent = pane.turns.at(-1)?.content !== "";
  return (
    <fieldset class="drop">
      <legend>The model no longer sees these turns:</legend>
      {droppable(pane.turns).map((place) => (
        <label key={place}>
          <input type="checkbox" checked={chosen.value.includes(place)} onChange={() => toggle(place)} />
          <span dir="auto">{`${pane.turns[place]!.role === "user" ? "You" : "Model"}: ${pane.turns[place]!.content.slice(0, 80)}`}</span>
        </label>
      ))}
      <button type="button" disabled={chosen.value.length === 0} onClick={() => void drop(paneIndex, chosen.value)}>
        {hasContent ? "Drop them and continue" : "Drop them and try again"}
      </button>
    </fieldset>
  );
}

function Offers({ pane, paneIndex }: Pick<TurnProps, "pane" | "paneIndex">) {
  const { trouble, content } = pane.turns.at(-1)!;
  const lacksRoom = trouble === "full" || trouble === "too-long";
  const question = pane.turns[lastQuestion(pane.turns)];
  const hasPicture = question?.files?.some(({ image }) => image !== undefined) === true;
  const canDrop = lacksRoom && droppable(pane.turns).length > 0;
  return (
    <div class="offers">
      {canDrop && <DropChoice pane={pane} paneIndex={paneIndex} />}
      {((lacksRoom && !canDrop) || (trouble === "failed" && hasPicture)) && content === "" && (
        <button type="button" class="plain" onClick={() => edit(paneIndex, lastQuestion(pane.turns))}>
          Edit the message
        </button>
      )}
      {lacksRoom && (
        <button type="button" class="plain" onClick={beginAnew}>
          New chat
        </button>
      )}
      {trouble !== undefined && !lacksRoom && (
        <button type="button" class="plain" onClick={() => void goOn(paneIndex)}>
          {content === "" ? "Try again" : "Continue"}
        </button>
      )}
      {content !== "" && (
        <button type="button" class="plain" onClick={() => void regenerate(paneIndex)}>
          Regenerate
        </button>
      )}
      {content !== "" && <CopyButton textOf={() => content} />}
    </div>
  );
}

function AnswerText({ turn, format }: { readonly turn: Turn; readonly format: string }) {
  const tree = format === "text" ? undefined : parseTree(turn.content);
  return (
    <>
      {turn.reasoning !== undefined && (
        <details class="reasoning">
          <summary>Reasoning</summary>
          <MarkdownView text={turn.reasoning} />
        </details>
      )}
      <div class="text">{tree === undefined ? <MarkdownView text={turn.content} /> : <JsonTree value={tree} />}</div>
      {turn.toolCalls?.map((call, i) => (
        <details class="tool-call" key={i}>
          <summary>Calls {oneLine(call.name)}</summary>
          <pre dir="ltr">{call.arguments}</pre>
        </details>
      ))}
      {turn.tokens !== undefined && <TokenView tokens={turn.tokens} />}
    </>
  );
}

function Question({ pane, paneIndex, place }: Pick<TurnProps, "pane" | "paneIndex" | "place">) {
  const turn = pane.turns[place]!;
  return (
    <>
      {turn.files?.map(({ name, text, image }, index) => (
        <details class="file" key={`${index} ${name}`} open={image !== undefined}>
          <summary>{name}</summary>
          {image === undefined ? <pre dir="auto">{text}</pre> : <img src={image} alt={name} />}
        </details>
      ))}
      <p class="text" dir="auto">
        {turn.content}
      </p>
      <button type="button" class="quiet" disabled={isBusy.value} onClick={() => edit(paneIndex, place)}>
        Edit
      </button>
    </>
  );
}

export function TurnView({ pane, paneIndex, place, format }: TurnProps) {
  const turn = pane.turns[place]!;
  const isUser = turn.role === "user";
  const isLast = place === pane.turns.length - 1;
  const isEmpty = turn.content === "" && turn.reasoning === undefined && turn.toolCalls === undefined;
  const isError = turn.trouble === "broken" || turn.trouble === "too-long" || turn.trouble === "failed";
  const facts = [
    turn.speed === undefined ? "" : describeSpeed(turn.speed),
    turn.cost === undefined ? "" : describeCost(turn.cost),
    troubleText(turn, pane),
  ];
  return (
    <article class={`turn ${turn.role} ${turn.isDropped === true ? "dropped" : ""}`}>
      <span class="sr">{isUser ? "You said:" : "The model said:"}</span>
      {isUser ? (
        <Question pane={pane} paneIndex={paneIndex} place={place} />
      ) : (
        <AnswerText turn={turn} format={format} />
      )}
      {!isUser && isLast && isEmpty && isAnswering(paneIndex) && (
        <p class="waiting hint" role="status">
          Waiting for the first words
        </p>
      )}
      {!isUser && <p class={`facts ${isError ? "error" : ""}`}>{facts.filter((part) => part !== "").join(" · ")}</p>}
      {turn.feedback !== undefined && !isEmpty && !(isLast && isAnswering(paneIndex)) && (
        <FeedbackView key={turn.feedback.requestId} feedback={turn.feedback} />
      )}
      {!isUser && isLast && !isBusy.value && <Offers pane={pane} paneIndex={paneIndex} />}
    </article>
  );
}
