/** A figure with its label. */
export function FigureTile({
  name,
  value,
  unit = "",
}: {
  readonly name: string;
  readonly value: string;
  readonly unit?: string;
}) {
  return (
    <div class="tile">
      <dt>{name}</dt>
      <dd>
        {value} <small>{unit}</small>
      </dd>
    </div>
  );
}
