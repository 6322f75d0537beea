/** Shows an answer in JSON as a foldable tree. */

const MOST_SHOWN = 200;

const isBranch = (value: unknown): value is object => typeof value === "object" && value !== null;

function Entry({ name, value, isOpen }: { readonly name: string; readonly value: unknown; readonly isOpen: boolean }) {
  if (!isBranch(value)) {
    return (
      <li>
        <span class="json-name">{name}</span> <code>{JSON.stringify(value)}</code>
      </li>
    );
  }
  const entries = Object.entries(value);
  const brackets = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return (
    <li>
      <details open={isOpen}>
        <summary>
          <span class="json-name">{name}</span> {brackets}
        </summary>
        <ul>
          {entries.slice(0, MOST_SHOWN).map(([key, child]) => (
            <Entry key={key} name={key} value={child} isOpen={entries.length <= 10} />
          ))}
          {entries.length > MOST_SHOWN && <li>… {entries.length - MOST_SHOWN} more</li>}
        </ul>
      </details>
    </li>
  );
}

/** @returns undefined unless the text is a complete JSON object or list */
export function parseTree(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isBranch(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function JsonTree({ value }: { readonly value: object }) {
  return (
    <ul class="json-tree">
      <Entry name="answer" value={value} isOpen />
    </ul>
  );
}
