/** Scrolls to a search result within its conversation. */
import { signal } from "@preact/signals";

/** The turn to scroll to, and the pattern of the words to highlight there. */
interface Target {
  readonly pane: number;
  readonly turn: number;
  readonly pattern: RegExp;
}

export const target = signal<Target | undefined>(undefined);

const HIGHLIGHT = "found";

function textNodeWith(
  root: Element,
  pattern: RegExp,
): { readonly node: Text; readonly match: RegExpExecArray } | undefined {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const match = pattern.exec((node as Text).data);
    if (match !== null) return { node: node as Text, match };
  }
  return undefined;
}

/** Words that markdown divides, as in "half **bold**", have no highlight: the turn is shown instead. */
export function goToFound(turn: Element, pattern: RegExp): void {
  const found = textNodeWith(turn.querySelector(".text") ?? turn, pattern) ?? textNodeWith(turn, pattern);
  const place = found?.node.parentElement ?? turn;
  place.closest("details")?.setAttribute("open", "");
  place.scrollIntoView({ block: found === undefined ? "start" : "center" });
  if (found === undefined || typeof Highlight === "undefined") return;
  const range = new Range();
  range.setStart(found.node, found.match.index);
  range.setEnd(found.node, found.match.index + found.match[0].length);
  CSS.highlights.set(HIGHLIGHT, new Highlight(range));
}
