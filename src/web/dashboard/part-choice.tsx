/** Chooses the figures on the dashboard: the whole server's, or those of one model, instance or tenant of a fleet. */
import { wantedSignIn } from "../api/client.js";
import { session } from "../api/session.js";
import { type Part, part, parts, queryOf } from "./watch.js";

/** A tenant without requests since the gateway's start may still exist. */
const ABSENT = { model: "gone", instance: "gone", tenant: "no requests" } as const;

function Choices({ kind, label }: { readonly kind: Part["kind"]; readonly label: string }) {
  const own = parts.value.filter((each) => each.kind === kind);
  if (own.length === 0) return null;
  return (
    <optgroup label={label}>
      {own.map((each) => (
        <option key={each.name} value={queryOf(each)}>
          {each.isCurrent ? each.name : `${each.name} (${ABSENT[kind]})`}
        </option>
      ))}
    </optgroup>
  );
}

/** The server shows tenants only to operators. */
const mustSignIn = (): boolean => session.value?.role == null && (session.value?.ways ?? []).length > 0;

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
        <Choices kind="tenant" label="Tenants" />
        {!isListed && <option value={part.value}>{decodeURIComponent(part.value)}</option>}
      </select>
      {mustSignIn() && (
        <button
          type="button"
          class="plain"
          onClick={() => {
            wantedSignIn.value = "operator";
          }}
        >
          Sign in for tenants
        </button>
      )}
    </p>
  );
}
