/** A table that scrolls sideways where the page is narrow. */
import type { ComponentChildren } from "preact";

interface TableProps {
  readonly columns: readonly string[];
  /** The rows. */
  readonly children: ComponentChildren;
}

export function Table({ columns, children }: TableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users scroll it
    <div class="table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((name) => (
              <th key={name}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
