/**
 * Copies texts. Over plain HTTP from another machine, browsers have no clipboard for pages: there a selection is
 * copied, as by the visitor's keys.
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

/** @param say the words that a button has for a while instead of its own; undefined: its own again */
export async function copyAndSay(text: string, say: (words: string | undefined) => void): Promise<void> {
  say(await copyText(text));
  setTimeout(() => say(undefined), SHOWN_MS);
}

/** @param textOf makes the text at the time when it is copied */
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
