/** Renders a text in markdown. */
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { copyAndSay } from "../parts/copy.js";
import { BlockSplitter } from "./blocks.js";
import { numLoaded } from "./loaded-later.js";
import { markdownHtml } from "./markdown.js";

function Block({ raw }: { readonly raw: string }) {
  const element = useRef<HTMLDivElement>(null);
  const numParts = numLoaded.value;
  useLayoutEffect(() => {
    // Colours code and draws formulas once the parts for them are loaded.
    void numParts;
    element.current!.innerHTML = markdownHtml(raw);
  }, [raw, numParts]);
  return <div ref={element} dir="auto" />;
}

function copyCode({ target }: MouseEvent): void {
  const button = target instanceof HTMLElement ? target.closest("[data-copy]") : null;
  if (button === null) return;
  void copyAndSay(button.closest(".code")?.querySelector("code")?.textContent ?? "", (words) => {
    button.textContent = words ?? "Copy";
  });
}

export function MarkdownView({ text }: { readonly text: string }) {
  const splitter = useMemo(() => new BlockSplitter(), []);
  const { closed, open } = splitter.split(text);
  const blocks = open === "" ? closed : [...closed, open];
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: a press of Enter on a button inside is a click, too
    // biome-ignore lint/a11y/noStaticElementInteractions: clicks on the buttons inside bubble to it
    <div class="markdown" onClick={copyCode}>
      {blocks.map((raw, i) => (
        <Block key={i} raw={raw} />
      ))}
    </div>
  );
}
