import { expect, it } from "vitest";
import { SaidTokens, type ScoredToken } from "./said-tokens.js";

const scored = (tokenId: number): ScoredToken => ({
  logprob: { tokenId, logprob: 0, rank: 1, top: [] },
  textOffset: 0,
});

it("keeps a token of which the content has a part, and leaves out those within the stop string", () => {
  const tokens = new SaidTokens();
  for (const [id, text] of ["one", " tw", "o", "STOP"].entries()) tokens.push(scored(id), text);
  tokens.free("one t", undefined);
  expect(tokens.take().map(({ logprob }) => logprob.tokenId)).toEqual([0, 1]);
  tokens.free("", undefined);
  expect(tokens.take()).toEqual([]);
});

it("keeps every token of a character, once it is complete", () => {
  const tokens = new SaidTokens();
  tokens.push(scored(0), "");
  tokens.free("", undefined);
  expect(tokens.take()).toEqual([]);
  tokens.push(scored(1), "é");
  tokens.free("é", undefined);
  expect(tokens.take()).toHaveLength(2);
});

it("leaves out markers and the white space around them, even if content looks like their end", () => {
  const tokens = new SaidTokens();
  for (const [id, text] of ["hm", "</think>", "\n", "k>"].entries()) tokens.push(scored(id), text);
  tokens.free("hm</think>\nk>", [
    { kind: "reasoning", text: "hm" },
    { kind: "content", text: "k>" },
  ]);
  expect(tokens.take().map(({ logprob }) => logprob.tokenId)).toEqual([3]);
});
