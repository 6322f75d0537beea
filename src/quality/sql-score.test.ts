import { describe, expect, test } from "vitest";
import { scoreAnswer } from "./score-answer.js";

const setup = `CREATE TABLE staff (name TEXT, city TEXT, pay REAL);
INSERT INTO staff VALUES ('Ada', 'Oslo', 10.1), ('Bo', 'Rome', 20.2), ('Cy', 'Oslo', 30.3);`;
const byCity = "SELECT city, sum(pay) FROM staff GROUP BY city ORDER BY city";
const score = (answer: string, expected = byCity, isOrdered = false) =>
  scoreAnswer({ kind: "sql", setup, ...(isOrdered ? { isOrdered } : {}) }, expected, answer);

describe("SQL is judged by the rows that it finds", () => {
  test("whatever the query looks like, in a fence or not", async () => {
    expect(await score("SELECT city, total(pay) AS t FROM staff GROUP BY 1 ORDER BY t DESC;")).toMatchObject({
      exact: true,
    });
    expect(await score("```sql\nSELECT city, sum(pay) FROM staff GROUP BY city\n```")).toMatchObject({ exact: true });
  });

  test("in their order, where it is asked for", async () => {
    const [right, other] = ["SELECT name FROM staff ORDER BY pay DESC", "SELECT name FROM staff ORDER BY pay"];
    expect(await score(right, right, true)).toMatchObject({ exact: true });
    expect(await score(other, right, true)).toMatchObject({
      exact: false,
      note: 'expected the row ["Cy"], got ["Ada"]',
    });
    expect(await score(other, right)).toMatchObject({ exact: true });
  });

  test("and not by rows that are too many, too few or others", async () => {
    expect(await score("SELECT city, pay FROM staff")).toMatchObject({ note: "expected 2 rows, got 3" });
    expect(await score("SELECT city, 1 FROM staff GROUP BY city")).toMatchObject({ exact: false });
    expect(await score("SELECT age FROM staff")).toMatchObject({ note: expect.stringContaining("no such column") });
    expect(await score("SELECT city, sum(pay) * 1000000000000 FROM staff GROUP BY city")).toMatchObject({
      exact: false,
    });
    const [right, next] = [1, 2].map((last) => `SELECT 170000000000${last}`) as [string, string];
    expect(await score(next, right)).toMatchObject({ exact: false });
    await expect(score(byCity, "SELECT age FROM staff")).rejects.toMatchObject({
      code: "invalid_option",
      message: expect.stringContaining("no such column"),
    });
  });

  test("and it can neither write nor reach a file nor run on without end", async () => {
    for (const attack of [
      "DELETE FROM staff",
      "SELECT 1; DROP TABLE staff",
      "ATTACH DATABASE '/etc/passwd' AS users",
      "SELECT load_extension('libc.so.6')",
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    ]) {
      expect(await score(attack), attack).toMatchObject({ score: 0, note: expect.any(String) });
    }
  }, 60_000);
});
