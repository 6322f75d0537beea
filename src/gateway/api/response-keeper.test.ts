import { expect, test, vi } from "vitest";
import type { OpenTurn } from "../../core/response-state.js";
import { ResponseKeeper } from "./response-keeper.js";

const MAX_BYTES = 32 * 1024 * 1024;

/** A response of a given size, spaced so that it is held in few chunks. */
const responseOf = (numBytes: number): Buffer => Buffer.from('{"status":"completed"}'.padEnd(numBytes));

function setUp() {
  const finish = vi.fn((response: object) => ({ ...response, store: true }));
  const turn = { body: {}, previousId: null, isToBeStored: true, finish } as unknown as OpenTurn;
  return { finish, turn, keeper: new ResponseKeeper(turn, false) };
}

test("an answer of 32 MiB is held until its end and stored", () => {
  const { finish, keeper } = setUp();
  expect(keeper.push(responseOf(MAX_BYTES))).toHaveLength(0);
  expect(JSON.parse(keeper.end().toString())).toMatchObject({ status: "completed", store: true });
  expect(finish).toHaveBeenCalledOnce();
});

test("a longer answer passes unchanged, and is not stored", () => {
  const { finish, keeper } = setUp();
  const response = responseOf(MAX_BYTES + 1);
  expect(keeper.push(response).equals(response)).toBe(true);
  expect(keeper.push(Buffer.from("more")).toString()).toBe("more");
  expect(keeper.end()).toHaveLength(0);
  expect(finish).not.toHaveBeenCalled();
});

test("a stream with separators that end a line in JavaScript alone is stored", () => {
  const { turn, finish } = setUp();
  const keeper = new ResponseKeeper(turn, true);
  const data = JSON.stringify({ type: "response.completed", response: { output_text: "a\u2028b\u2029c" } });
  const sent = keeper.push(Buffer.from(`event: response.completed\ndata: ${data}\n\n`)).toString();
  expect(finish).toHaveBeenCalledOnce();
  expect(JSON.parse(sent.slice(sent.indexOf("{")))).toMatchObject({
    response: { output_text: "a\u2028b\u2029c", store: true },
  });
});

// A pattern that tried every line as the beginning took hours for an event of the largest size.
test("an event of many lines without data passes unchanged", () => {
  const { turn, finish } = setUp();
  const event = Buffer.from(`event: response.completed\n${"id: 1\n".repeat(200_000)}\n`);
  expect(new ResponseKeeper(turn, true).push(event).equals(event)).toBe(true);
  expect(finish).not.toHaveBeenCalled();
});

test("what stands around an event's data stays as it is", () => {
  const { turn } = setUp();
  const data = JSON.stringify({ type: "response.completed", response: {} });
  const sent = new ResponseKeeper(turn, true).push(
    Buffer.from(`id: 7\nevent: response.completed\ndata:${data}\r\nretry: 5\n\n`),
  );
  expect(sent.toString()).toBe(
    'id: 7\nevent: response.completed\ndata:{"type":"response.completed","response":{"previous_response_id":null,"store":true}}\r\nretry: 5\n\n',
  );
});
