import { expect, test } from "vitest";
import { routeReport } from "./route-report.js";
import { ROUTE_DEFAULTS } from "./route-table.js";
import { RouteTally } from "./route-tally.js";

test("rules are shown with shares, without the values of headers, and with where requests went", () => {
  const tallies = { routed: new RouteTally(), fallbacks: new RouteTally() };
  for (const model of ["small", "large", "large"]) tallies.routed.add("chat", model);
  tallies.routed.add("another", "small");
  tallies.fallbacks.add("chat", "large");
  const rules = [
    { when: { headers: { "x-secret": ["s3cret"] }, tenant: ["acme"] }, to: [{ model: "small", weight: 1 }] },
    {
      when: {},
      to: [
        { model: "large", weight: 95 },
        { model: "small", weight: 5 },
      ],
    },
  ];
  const route = { ...ROUTE_DEFAULTS, name: "chat", rules, fallback: { overload: ["small"] } };
  const report = routeReport(route, tallies);
  expect(report).toEqual({
    name: "chat",
    aliases: [],
    rules: [
      { when: { headers: ["x-secret"], tenant: ["acme"] }, to: [{ model: "small", share: 1 }] },
      {
        when: {},
        to: [
          { model: "large", share: 0.95 },
          { model: "small", share: 0.05 },
        ],
      },
    ],
    fallback: [{ error: "overload", models: ["small"] }],
    maxAttempts: 3,
    requests: [
      { model: "large", count: 2 },
      { model: "small", count: 1 },
    ],
    fallbacks: [{ model: "large", count: 1 }],
  });
});
