/** Writes the generated parts of docs/background/mutations.md: the table, and every survivor with its explanation. */
import { readFileSync, writeFileSync } from "node:fs";

const EXPLANATIONS = new URL("explanations.json", import.meta.url);
const BEGIN = "<!-- written by scripts/mutate.js -->";
const END = "<!-- end -->";

/** Puts a survivor's source on one line, for readability. */
const inline = (text) => text.replace(/\s+/g, " ");
const shorten = (text) => (text.length > 90 ? `${text.slice(0, 87)}…` : text);

export const isCaught = ({ outcome }) => outcome === "killed" || outcome === "timed out";

/** "a < b → a <= b" */
const changeOf = ({ from, to }) => `${inline(from)} → ${to === "" ? "nothing" : inline(to)}`;

/** @returns the explanation of a surviving mutant, if there is one */
export function explanationOf(name, mutant) {
  const { [name]: entries = [] } = JSON.parse(readFileSync(EXPLANATIONS, "utf8"));
  return entries.find(({ place, changes }) => place === mutant.place && changes.includes(changeOf(mutant)))?.why;
}

const percent = (count, total) => `${((100 * count) / total).toFixed(1)} %`;

function tableOf(results) {
  const rows = results.map(({ name, mutants }) => {
    const count = (outcome) => mutants.filter((each) => each.outcome === outcome).length;
    return {
      name: `\`${name}\``,
      numMutants: mutants.length,
      numKilled: count("killed"),
      numTimedOut: count("timed out"),
      numSurvived: count("survived"),
      numUncovered: count("not covered"),
    };
  });
  const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
  const keys = ["numMutants", "numKilled", "numTimedOut", "numSurvived", "numUncovered"];
  rows.push({ name: "all", ...Object.fromEntries(keys.map((key) => [key, sum(key)])) });
  return [
    "| File | Mutants | Killed | Timed out | Survived | Not covered | Caught |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ...rows.map((row) => {
      const share = percent(row.numKilled + row.numTimedOut, row.numMutants);
      return `| ${row.name} | ${keys.map((key) => row[key]).join(" | ")} | ${share} |`;
    }),
  ];
}

function survivorsOf({ name, mutants }) {
  const survivors = mutants.filter((mutant) => !isCaught(mutant));
  if (survivors.length === 0) return [];
  const byReason = new Map();
  for (const mutant of survivors) {
    const why = explanationOf(name, mutant) ?? "Not explained yet.";
    byReason.set(why, [...(byReason.get(why) ?? []), mutant]);
  }
  return [
    "",
    `### ${name}`,
    "",
    "| Place | Mutants | Why they survive |",
    "| --- | --- | --- |",
    ...[...byReason].map(([why, those]) => {
      const places = [...new Set(those.map(({ place }) => `\`${place}\``))].join(", ");
      const changes = those.map((mutant) => `\`${shorten(changeOf(mutant)).replaceAll("|", "\\|")}\``);
      return `| ${places} | ${[...new Set(changes)].join("<br>")} | ${why} |`;
    }),
  ];
}

/** @param results of all files, in the table's order */
export function writePage(path, results) {
  const page = readFileSync(path, "utf8");
  const start = page.indexOf(BEGIN) + BEGIN.length;
  const written = [...tableOf(results), "", "## Survivors", ...results.flatMap(survivorsOf)].join("\n");
  writeFileSync(path, `${page.slice(0, start)}\n\n${written}\n\n${page.slice(page.indexOf(END))}`);
}
