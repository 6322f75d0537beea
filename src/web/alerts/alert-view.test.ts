import { expect, test } from "vitest";
import { type Alert, aboutText, fitsText, newestOfEach, sentText, silenceOf, wishFor } from "./alert-view.js";

const alert: Alert = {
  id: "a",
  text: "t",
  metric: "instance_down",
  tenant: "",
  key: "",
  model: "m",
  instance: "m-0",
  budget: "",
  found: "2026-11-30T10:00:00.000Z",
  resolved: null,
  tries: 0,
  delivered: null,
  silence: null,
};

test("what an alert is about", () => {
  expect(aboutText(alert)).toBe("model m, instance m-0");
  expect(aboutText({ ...alert, model: "", instance: "" })).toBe("all");
});

test("of alerts that come again, the newest is shown", () => {
  const budget = { ...alert, instance: "", budget: "key/k/day", metric: "soft_budget" };
  const all = [alert, budget, { ...alert, id: "older" }, { ...alert, instance: "m-1" }, { ...budget, budget: "b" }];
  expect(newestOfEach(all)).toEqual([alert, budget, all[3], all[4]]);
});

test("whether it was sent", () => {
  const of = (more: Partial<Alert>) => sentText({ ...alert, ...more }, (iso) => iso.slice(11, 16));
  expect(of({})).toBe("not sent");
  expect(of({ tries: 3 })).toBe("not sent, tried 3 times");
  expect(of({ tries: 1, delivered: "2026-11-30T10:01:00.000Z" })).toBe("sent 10:01");
  expect(of({ silence: "s", delivered: "2026-11-30T10:01:00.000Z" })).toBe("silenced");
});

test("a silence is made of the fields that are filled, and of one at least", () => {
  const wish = { ...wishFor(alert), comment: " a load test " };
  expect(silenceOf(wish, Date.parse("2026-11-30T10:00:00.000Z"))).toEqual({
    metric: "instance_down",
    model: "m",
    ends: "2026-11-30T12:00:00.000Z",
    comment: "a load test",
  });
  expect(silenceOf({ ...wish, metric: " ", model: "" }, 0)).toMatch(/^Give a metric/);
});

test("what a silence fits: all that it does not name, and with an empty name only what has none", () => {
  expect(fitsText({ metric: "spend", tenant: "" })).toBe("metric spend, no tenant");
  expect(fitsText({ metric: "spend", key: "a\u202Eb\n" })).toBe("metric spend, key ab");
});
