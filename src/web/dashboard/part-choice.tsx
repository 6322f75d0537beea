/** Whose figures the dashboard shows: the whole server's, or those of one model or instance of a fleet. */
import { type Part, part, parts } from "./watch.js";

const queryOf = ({ kind, name }: Part): string => `${kind}=${encodeURIComponent(name)}`;

function Choices({ kind, label }: { readonly kind: Part["kind"]; readonly label: string }) {
  const own = parts.value.filter((each) => each.kind === kind);
  if (own.length === 0) return null;
  return (
    <optgroup label={label}>
      {own.map((each) => (
        <option key={each.name} value={queryOf(each)}>
          {each.isCurrent ? each.name : `${each.name} (gone)`}
        </option>
      ))}
    </optgroup>
  );
}

export function PartChoice() {
  if (parts.value.length === 0) return null;
  const isListed = part.value === "" || parts.value.some((each) => queryOf(each) === part.value);
  return (
    <p class="row">
      <label for="part">Figures of</label>
      <select
        id="part"
        value={part.value}
        onChange={({ currentTarget }) => {
          part.value = currentTarget.value;
        }}
      >
        <option value="">the whole server</option>
        <Choices kind="model" label="Models" />
        <Choices kind="instance" label="Instances" />
        {!isListed && <option value={part.value}>{decodeURIComponent(part.value)}</option>}
      </select>
    </p>
  );
}
