/** The choice of the answering model: routes with their shares, cascades with their guards, and canaries. */
import { getJson } from "../api/client.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { Canaries } from "./canaries.js";
import { Cascades } from "./cascades.js";
import { conditionText, countsText, percent, type Route } from "./routing-view.js";

const EVERY_MS = 5000;

function OneRoute({ route }: { readonly route: Route }) {
  const { name, aliases, rules, fallback, requests, fallbacks } = route;
  return (
    <>
      <p>
        <strong>{name}</strong>
        {aliases.length > 0 && ` (also ${aliases.join(", ")})`}, since the gateway started: {countsText(requests)}
        {fallbacks.length > 0 && <span class="error">; errors of {countsText(fallbacks)}</span>}
      </p>
      <Table columns={["For", "Goes to"]}>
        {rules.map(({ when, to }, i) => (
          // Two rules may be equal.
          <tr key={i}>
            <td>{conditionText(when)}</td>
            <td>{to.map(({ model, share }) => `${model} ${percent(share)}`).join(", ")}</td>
          </tr>
        ))}
        {fallback.map(({ error, models }) => (
          <tr key={error}>
            <td>after an error: {error}</td>
            <td>{models.join(", then ")}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

function Routes() {
  const load = () => getJson<{ data: Route[] }>("admin/routes", "operator");
  const { data, error } = useLoaded(load, { everyMs: EVERY_MS });
  return (
    <section>
      <h3>Routes</h3>
      {error !== undefined && <p class="error">{error}</p>}
      {data?.data.length === 0 && (
        <p class="hint">
          None. A route of the gateway's file is a name for which rules choose the model: routes: in the file makes one.
        </p>
      )}
      {data?.data.map((route) => (
        <OneRoute key={route.name} route={route} />
      ))}
    </section>
  );
}

export function RoutingPage() {
  return (
    <div class="page">
      <h2>Routing</h2>
      <Routes />
      <Cascades />
      <Canaries />
    </div>
  );
}
