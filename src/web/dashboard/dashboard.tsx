/** The dashboard: the server's current state and bottleneck, and its last hour, day and week. */
import { useEffect } from "preact/hooks";
import { FigureTile } from "../parts/tile.js";
import { Chart, shownNumber } from "./chart.js";
import { EventList } from "./event-list.js";
import { answerShare, type Binding, draftedShare, type Load, type Targets } from "./load.js";
import { PartChoice } from "./part-choice.js";
import { TenantTable } from "./tenant-table.js";
import {
  isTenant,
  latest,
  part,
  parts,
  SPANS,
  type Span,
  shownEvents,
  shownLoads,
  span,
  watch,
  watchError,
} from "./watch.js";

const BINDINGS: Readonly<Record<Binding["name"], string>> = {
  memory: "KV memory is short",
  seats: "Requests wait for a seat",
  queue: "Requests wait, though there is room",
  host: "Time goes by outside the kernels",
  prefill: "Reading prompts takes the time",
  decode: "Writing answers takes the time",
  steps: "Requests are computed",
  nothing: "Nothing is waiting",
};

const MEBIBYTE = 2 ** 20;
const mebibytes = (bytes: number | undefined): number | undefined =>
  bytes === undefined ? undefined : Math.round(bytes / MEBIBYTE);

const percent = (share: number | undefined): number | undefined => (share === undefined ? undefined : 100 * share);

function Tile({
  name,
  value,
  unit = "",
}: {
  readonly name: string;
  readonly value: number | undefined;
  readonly unit?: string;
}) {
  return <FigureTile name={name} value={shownNumber(value)} unit={unit} />;
}

/** A p95, and whether it keeps the operator's target. */
function TargetTile({
  name,
  value,
  target,
}: {
  readonly name: string;
  readonly value: number | undefined;
  readonly target: number | undefined;
}) {
  if (target === undefined) return <Tile name={name} value={value} unit="ms" />;
  const isMissed = value !== undefined && value > target;
  return (
    <div class={isMissed ? "tile missed" : "tile"}>
      <dt>{name}</dt>
      <dd>
        {shownNumber(value)}{" "}
        <small>
          ms, {isMissed ? "above" : "target"} {shownNumber(target)}
        </small>
      </dd>
    </div>
  );
}

/** A tile for a figure that few servers report; absent without the figure. */
function RareTile({
  name,
  value,
  unit,
}: {
  readonly name: string;
  readonly value: number | undefined;
  readonly unit: string;
}) {
  return value === undefined ? null : <Tile name={name} value={value} unit={unit} />;
}

function Tiles({ load }: { readonly load: Load }) {
  return (
    <dl class="tiles">
      <Tile name="Answers" value={load.tokensOutPerS} unit="tokens/s" />
      <Tile name="Prompts" value={load.tokensInPerS} unit="tokens/s" />
      <Tile name="Running" value={load.running} />
      <Tile name="Waiting" value={load.waiting} />
      <TargetTile name="TTFT p95" value={load.ttft.p95} target={load.targets?.ttftMs} />
      <TargetTile name="TPOT p95" value={load.tpot.p95} target={load.targets?.tpotMs} />
      <Tile name="KV memory in use" value={percent(load.kvUse)} unit="%" />
      <Tile name="Prompt tokens found in the prefix cache" value={percent(load.prefixHits)} unit="%" />
      <Tile name="Drafts accepted" value={percent(load.acceptance)} unit="%" />
      <RareTile name="Answers' tokens from drafts" value={percent(draftedShare(load))} unit="%" />
      <RareTile name="Step time for prompts" value={percent(load.promptShare)} unit="%" />
      <RareTile name="Step time for answers" value={percent(answerShare(load))} unit="%" />
      <Tile name="Steps outside the kernels" value={percent(load.hostShare)} unit="%" />
      <RareTile name="Pre-emptions" value={load.preemptionsPerS} unit="/s" />
      <RareTile name="Resident memory" value={mebibytes(load.memoryBytes)} unit="MiB" />
    </dl>
  );
}

function TenantTiles({ load }: { readonly load: Load }) {
  return (
    <dl class="tiles">
      <Tile name="Answers" value={load.tokensOutPerS} unit="tokens/s" />
      <Tile name="Prompts" value={load.tokensInPerS} unit="tokens/s" />
      <Tile name="Requests" value={load.requestsPerS} unit="/s" />
      <TargetTile name="TTFT p95" value={load.ttft.p95} target={load.targets?.ttftMs} />
      <TargetTile name="TPOT p95" value={load.tpot.p95} target={load.targets?.tpotMs} />
      <Tile name="Prompt tokens found in the prefix cache" value={percent(load.prefixHits)} unit="%" />
      <Tile name="Cost" value={load.costPerH} unit="dollars/h" />
      <Tile name="Saved" value={load.savedCostPerH} unit="dollars/h" />
    </dl>
  );
}

type Line = readonly [label: string, value: (load: Load) => number | undefined];

const quantilesOf = (name: "ttft" | "tpot" | "queue"): readonly Line[] => [
  ["p50", (load) => load[name].p50],
  ["p95", (load) => load[name].p95],
  ["p99", (load) => load[name].p99],
];

interface ChartOf {
  readonly title: string;
  readonly unit: string;
  readonly lines: readonly Line[];
  readonly target?: keyof Targets;
}

const CHARTS: readonly ChartOf[] = [
  {
    title: "Tokens",
    unit: "/s",
    lines: [
      ["answers", (load) => load.tokensOutPerS],
      ["prompts", (load) => load.tokensInPerS],
      ["of kept answers", (load) => load.savedPerS],
    ],
  },
  {
    title: "Tokens won",
    unit: "/s",
    lines: [
      ["prefix cache", (load) => load.prefixSavedPerS],
      ["drafts", (load) => load.draftedPerS],
    ],
  },
  {
    title: "Requests",
    unit: "",
    lines: [
      ["running", (load) => load.running],
      ["waiting", (load) => load.waiting],
    ],
  },
  { title: "TTFT", unit: "ms", lines: quantilesOf("ttft"), target: "ttftMs" },
  { title: "TPOT", unit: "ms", lines: quantilesOf("tpot"), target: "tpotMs" },
  { title: "Time in the queue", unit: "ms", lines: quantilesOf("queue") },
  { title: "KV memory in use", unit: "%", lines: [["most", (load) => percent(load.kvUse)]] },
  {
    title: "KV memory given back",
    unit: "/s",
    lines: [
      ["evicted tokens", (load) => load.evictedPerS],
      ["pre-emptions", (load) => load.preemptionsPerS],
    ],
  },
  {
    title: "Step time",
    unit: "%",
    lines: [
      ["prompts", (load) => percent(load.promptShare)],
      ["answers", (load) => percent(answerShare(load))],
      ["outside the kernels", (load) => percent(load.hostShare)],
    ],
  },
  {
    title: "Prefix cache and drafts",
    unit: "%",
    lines: [
      ["found", (load) => percent(load.prefixHits)],
      ["accepted", (load) => percent(load.acceptance)],
      ["answers' tokens from drafts", (load) => percent(draftedShare(load))],
    ],
  },
  { title: "Resident memory", unit: "MiB", lines: [["processes", (load) => mebibytes(load.memoryBytes)]] },
  {
    title: "Ended and refused requests",
    unit: "/s",
    lines: [
      ["ended", (load) => load.requestsPerS],
      ["refused", (load) => load.refusedPerS],
    ],
  },
  {
    title: "Cost",
    unit: "dollars/h",
    lines: [
      ["cost", (load) => load.costPerH],
      ["saved", (load) => load.savedCostPerH],
    ],
  },
];

function SpanChoice() {
  return (
    <fieldset class="spans row">
      <legend class="sr">Charts show</legend>
      {(Object.entries(SPANS) as [Span, string][]).map(([name, label]) => (
        <label key={name} class="check">
          <input
            type="radio"
            name="span"
            checked={span.value === name}
            onChange={() => {
              span.value = name;
            }}
          />
          {label}
        </label>
      ))}
    </fieldset>
  );
}

export function Dashboard() {
  useEffect(watch, []);
  const all = shownLoads();
  const events = shownEvents();
  const last = latest();
  const times = all.map(({ atMs }) => atMs);
  const isOfTenant = isTenant(part.value);
  const binding = last?.binding;
  const Figures = isOfTenant ? TenantTiles : Tiles;
  return (
    <div class="dashboard">
      <h2>Dashboard</h2>
      <PartChoice />
      {watchError.value !== undefined && <p class="error">No figures: {watchError.value}</p>}
      {last === undefined && watchError.value === undefined && (
        <p class="hint">The first figures come in two seconds.</p>
      )}
      {binding !== undefined && (
        <section class="binding" aria-label="What binds now">
          <h3>{BINDINGS[binding.name]}</h3>
          <p>
            {binding.evidence}. {binding.advice}
          </p>
        </section>
      )}
      {last !== undefined && <Figures load={last} />}
      {part.value === "" && parts.value.some(({ kind }) => kind === "tenant") && <TenantTable />}
      {last !== undefined && <SpanChoice />}
      {last !== undefined && all.length === 0 && <p class="hint">The server has no figures of that time yet.</p>}
      {last !== undefined && (
        <div class="charts">
          {CHARTS.map(({ title, unit, lines, target }) => {
            const series = lines.map(([label, value]) => ({ label, values: all.map(value) }));
            // A chart exists only for figures that the server reports.
            const isTold = series.some(({ values }) => values.some((value) => value !== undefined));
            const limit = target && last.targets?.[target];
            const shown = { title, unit, times, series, events, target: limit };
            return isTold && <Chart key={title} {...shown} />;
          })}
        </div>
      )}
      {last !== undefined && <EventList events={events} />}
    </div>
  );
}
