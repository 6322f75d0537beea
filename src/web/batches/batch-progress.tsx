/** A batch's id and its progress, as a bar and in words. */
import { type Batch, durationText, secondsLeft } from "./batch-view.js";

/** Characters of an id in a table. They suffice to distinguish batches; the tooltip has the whole id. */
const ID_SHOWN = 18;

export function BatchId({ id }: { readonly id: string }) {
  return <code title={id}>{id.length > ID_SHOWN ? `${id.slice(0, ID_SHOWN)}…` : id}</code>;
}

const whole = (value: number): string => value.toLocaleString("en");

export function BatchProgress({
  batch,
}: {
  readonly batch: Pick<Batch, "id" | "counts" | "beganAt" | "isOver" | "status">;
}) {
  const { id, counts, isOver, status } = batch;
  const { total, completed, failed } = counts;
  const left = secondsLeft(batch, Date.now() / 1000);
  if (total === 0) return <>{isOver ? "–" : <progress aria-label={`Progress of ${id}`} />}</>;
  return (
    <>
      {!isOver && <progress aria-label={`Progress of ${id}`} max={total} value={completed + failed} />}{" "}
      {whole(completed + failed)} of {whole(total)}
      {failed > 0 && <span class="error">, {whole(failed)} failed</span>}
      {left !== undefined && status === "in_progress" && `, ${durationText(left)} left`}
    </>
  );
}
