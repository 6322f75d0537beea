/** Filters of lm-evaluation-harness: they extract a part of an answer before it is compared. */
import { findAll, javascriptRegex } from "./python-regex.js";
import type { Filter } from "./task-file.js";

/** Throws SyntaxError for a regular expression that JavaScript lacks. */
export function filterOf(steps: readonly Filter[]): (answer: string) => string {
  const functions = steps.map(functionOf);
  return (answer) => functions.reduce((text, step) => step(text), answer);
}

function functionOf(filter: Filter): (text: string) => string {
  switch (filter.function) {
    case "regex":
      return extractor(filter);
    case "remove_whitespace":
      return (text) => text.trim();
    case "lowercase":
      return (text) => text.toLowerCase();
    case "uppercase":
      return (text) => text.toUpperCase();
    case "map": {
      const { mapping_dict: texts, default_value: other } = filter;
      return (text) => (Object.hasOwn(texts, text) ? texts[text]! : (other ?? "None"));
    }
    // Each prompt has one answer.
    case "take_first":
      return (text) => text;
  }
}

function extractor({ regex_pattern: pattern, group_select: select, fallback }: Extract<Filter, { function: "regex" }>) {
  const regex = javascriptRegex(pattern);
  return (text: string): string => {
    const match = findAll(regex, text)?.at(select);
    if (match === undefined) return fallback;
    const found = typeof match === "string" ? match : match.find((group) => group !== "");
    return (found ?? fallback).trim();
  };
}
