import { expect, test } from "vitest";
import { TextTemplate } from "./text-template.js";

const VALUES = { q: " A b\n", list: ["x", "it's"], yes: true, none_: null, nested: { label: ["B", "A"] } };

/** The expected texts are those of jinja2 3.1 with StrictUndefined and keep_trailing_newline. */
test.each([
  ["{{q}}|\n", " A b\n|\n"],
  ["{% if yes %}\n a\n{% endif %}\n", "\n a\n\n"],
  ["{{ list }} {{ [1, none_, yes] }}", "['x', \"it's\"] [1, None, True]"],
  ["{{ list.index('x') + 1 }}{{ nested.label.index('A') }}{{ ['no', 'yes'][yes] }}", "11yes"],
  ["{{ ', '.join(list) }} {{ 'hELLO'.capitalize() }} {{ q.strip().split(' ')[-1] }}", "x, it's Hello b"],
  ["{{ gone is defined }} {{ gone | default('d') }} {{ none_ is none }}", "False d True"],
  ["{% for i in range(3) %}{{ i }}{% endfor %}", "012"],
])("renders %s", (source, text) => {
  expect(new TextTemplate(source).render(VALUES)).toBe(text);
});

test.each([
  ["{{ gone }}", "gone is undefined"],
  ["{{ nested.gone }}", "gone is undefined"],
  ["{{ list[7] }}", "undefined"],
  ["{% if gone %}a{% endif %}", "gone is undefined"],
  ["{{ gone ~ 'a' }}", "gone is undefined"],
  ["{{ list.index('z') }}", "z is not in the list"],
  ["{{ q.index('z') }}", "index"],
  ["{{ q | unheard_of }}", "unheard_of"],
  ["{% for i in range(1000000) %}{% endfor %}", "too long"],
  ["{{ 'abc }}", "does not parse"],
])("refuses %s", (source, message) => {
  expect(() => new TextTemplate(source).render(VALUES)).toThrow(
    expect.objectContaining({ code: "template_failed", message: expect.stringContaining(message) }),
  );
});
