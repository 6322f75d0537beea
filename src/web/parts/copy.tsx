/**
 * Copies texts. Over plain HTTP from another machine, browsers offer pages no clipboard: the page copies a selection
 * instead, as the visitor's keys would.
 */
import { useSignal } from "@preact/signals";

const SHOWN_MS = 1500;

function copySelected(text: string): boolean {
  const before = document.activeElement;
  const field = document.createElement("textarea");
  field.className = "sr";
  // Without wrapping, browsers copy the text without its spaces.
  field.style.whiteSpace = "pre-wrap";
  field.readOnly = true;
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return isCopied;
}

/** @returns the text that the button shows afterwards */
async function copyText(text: string): Promise<string> {
  const clipboard = (navigator as Partial<Navigator>).clipboard;
  try {
    if (clipboard !== undefined) await clipboard.writeText(text);
    else if (!copySelected(text)) return "Not copied";
    return "Copied";
  } catch {
    return "Not copied";
  }
}

/** @param say sets a temporary label of the button; undefined: its own label again */
export async function copyAndSay(text: string, say: (words: string | undefined) => void): Promise<void> {
  say(await copyText(text));
  setTimeout(() => say(undefined), SHOWN_MS);
}

/** @param textOf returns the text at the time of copying */
export function CopyButton({ label = "Copy", textOf }: { readonly label?: string; textOf(): string }) {
  const said = useSignal<string | undefined>(undefined);
  const copy = () => {
    void copyAndSay(textOf(), (words) => {
      said.value = words;
    });
  };
  return (
    <button type="button" class="plain" onClick={copy}>
      {said.value ?? label}
    </button>
  );
}
