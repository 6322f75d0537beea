import { expect, test } from "vitest";
import { acceptanceOf } from "./acceptance.js";
import { type ComparedItem, compareQuality, type DistillReport, findings, reportMarkdown } from "./report.js";

const itemsOf = (pairs: readonly (readonly [teacher: number, student: number])[]): ComparedItem[] =>
  pairs.map(([teacher, student], i) => ({
    id: String(i),
    prompt: [{ role: "user", content: "?" }],
    teacher: { answer: "a", score: teacher, exact: teacher === 1 },
    student: { answer: "b", score: student, exact: student === 1 },
  }));

test("scores are compared prompt by prompt", () => {
  const pairs = Array.from({ length: 40 }, (_, i) => [i % 2, i % 4 === 0 ? 0 : (i % 2) * 0.5] as const);
  const { numItems, teacher, student, difference } = compareQuality(itemsOf(pairs));
  expect({ numItems, right: teacher.right, studentRight: student.right }).toEqual({
    numItems: 40,
    right: 0.5,
    studentRight: 0,
  });
  expect([teacher.score, student.score]).toEqual([0.5, 0.25]);
  expect(difference.value).toBeCloseTo(-0.25);
  // Half of the differences are -0.5, half 0: the standard error is 0.0401, times 2.02 on each side.
  expect(difference.low).toBeCloseTo(-0.25 - 0.081, 3);
  expect(difference.high).toBeCloseTo(-0.25 + 0.081, 3);
});

const report: DistillReport = {
  teacher: { name: "big", url: undefined, size: { numParameters: 8e6, weightBytes: 16e6 } },
  student: { path: "student.gguf", config: "tiny", size: { numParameters: 1e6, weightBytes: 2e6 } },
  judge: "the checks of fact",
  sampling: { temperature: 0, maxTokens: 64, seed: 1 },
  prompts: { file: "p.jsonl", numTrained: 90, numTrainedCut: 0, numHeldOut: 3, numRefused: 1, numCutOff: 2 },
  training: { steps: 100, heldOutLoss: 0.5 },
  quality: compareQuality(
    itemsOf([
      [1, 1],
      [1, 0],
      [0, 0],
    ]),
  ),
  speed: {
    teacher: { firstTokenMs: 8, tokenMs: 4, tokensPerS: 250 },
    student: { firstTokenMs: 2, tokenMs: 1, tokensPerS: 1000 },
    decoding: { value: 4, low: 3.5, high: 4.5, numRuns: 8 },
    firstToken: { value: 4, numRuns: 2 },
    genTokens: 32,
    loaded: { numSequences: 16, teacherMs: 2, studentMs: 0.25, ratio: { value: 8, low: 7, high: 9, numRuns: 6 } },
  },
  answerSpeed: undefined,
  speedProblem: undefined,
  textPerToken: undefined,
  items: [],
  machine: { cpu: "a CPU", numCpus: 2, memoryBytes: 1, platform: "linux x64" },
  versions: { millrace: "0.1.0", node: "20" },
};

test("the report has a table and conclusions", () => {
  const markdown = reportMarkdown(report);
  expect(markdown).toContain("| mean score | 0.667 | 0.333 |");
  expect(markdown).toContain("| tokens/s | 250 | 1000 |");
  expect(findings(report)).toEqual([
    expect.stringMatching(
      /^Quality, student − teacher: -0\.333 \(95 %: -1\.768 to 1\.101\) in score, paired over 3 held-out/,
    ),
    expect.stringMatching(/a token is 4\.00 times as fast \(95 %: 3\.50 to 4\.50\), the first one 4\.00 times\.$/),
    "Cost, 16 prompts at once: a token of the student, its share of the prompt included, takes 12.5 % of the teacher's time, 8.00 times less (95 %: 7.00 to 9.00).",
    "Size: 12.5 % of the parameters, 12.5 % of the bytes.",
  ]);
});

test("missing measurements are named", () => {
  const away = { ...report, teacher: { name: "big", url: "http://x", size: undefined }, speed: undefined };
  expect(reportMarkdown(away)).toContain("| tokens/s | — | — |");
  expect(
    findings({
      ...away,
      speedProblem: "the teacher does not count its tokens",
      quality: compareQuality(
        itemsOf([
          [0, 0],
          [1, 1],
          [1, 1],
        ]),
      ),
    }),
  ).toEqual([
    "Quality, student − teacher: 0.000 in score, paired over 3 held-out prompts.",
    "No interval: too few prompts, or equal differences.",
    "Speed: not measured, since the teacher does not count its tokens.",
  ]);
});

test("a teacher behind a URL is compared by whole answers", () => {
  const answerSpeed = { teacherMs: 8, studentMs: 2, ratio: { value: 4, low: 3, high: 5, numRuns: 16 } };
  const away = { ...report, teacher: { name: "big", url: "http://x", size: undefined }, speed: undefined, answerSpeed };
  expect(reportMarkdown(away)).toContain("| whole answers, per token | 8.000 ms | 2.000 ms |");
  expect(findings(away)[1]).toMatch(
    /whole answers.*: 4\.00 times as fast as the teacher at http:\/\/x \(95 %: 3\.00 to 5\.00\)/,
  );
  const otherTokens = { ...away, textPerToken: { teacher: 4, student: 2 } };
  expect(findings(otherTokens)[2]).toMatch(
    /4\.00 characters per token for the teacher.* the student is 2\.00 times as fast\.$/,
  );
});

test("right is what the check calls exact, whatever the score", () => {
  const [item] = itemsOf([[1, 1]]);
  const [looping, short] = [
    { ...item!.student, exact: false },
    { ...item!.student, score: 0.9, exact: true },
  ];
  const { student } = compareQuality([
    { ...item!, student: looping },
    { ...item!, student: short },
  ]);
  expect(student).toMatchObject({ score: 0.95, right: 0.5 });
});

test("acceptance by position is a share of all drafts", () => {
  const stats = { numDrafts: 8, numDraftTokens: 30, numAcceptedTokens: 12, numAcceptedTokensPerPosition: [6, 4, 2] };
  expect(acceptanceOf(stats, 4)).toEqual({ byPosition: [0.75, 0.5, 0.25, 0], numDrafts: 8, tokensPerStep: 2.5 });
  const none = { numDrafts: 0, numDraftTokens: 0, numAcceptedTokens: 0, numAcceptedTokensPerPosition: [] };
  expect(acceptanceOf(none, 2)).toMatchObject({ byPosition: [0, 0], tokensPerStep: 1 });
});
