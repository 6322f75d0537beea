/** Events of the charts' time as a table, since marks in the charts need eyes and a pointer. */
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import type { ServerEvent } from "./load.js";

export function EventList({ events }: { readonly events: readonly ServerEvent[] }) {
  const timeText = useTimeText("medium");
  return (
    <section aria-label="Events">
      <h3>Events</h3>
      {events.length === 0 && <p class="hint">None in this time.</p>}
      {events.length > 0 && (
        <Table columns={["At", "Kind", "Event"]}>
          {events.toReversed().map(({ atMs, kind, text }, i) => (
            <tr key={`${atMs} ${i}`}>
              <td>{timeText(atMs / 1000)}</td>
              <td>
                <span class={`mark-${kind}`}>{kind}</span>
              </td>
              <td>{text}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
