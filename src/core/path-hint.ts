/** Hints for other servers' paths: the path here that does the same. */
const ELSEWHERE: readonly (readonly [path: RegExp, hint: string])[] = [
  [/^\/slots\/\d+$/, "prefixes are cached for all requests; --prefix-cache-disk SIZE keeps them across restarts"],
  [
    /^\/(lora-adapters|v1\/(un)?load_lora_adapter)$/,
    "an adapter is merged into its model before it is served: docs/guides/distil.md",
  ],
  [/^\/(v1\/)?(pooling|classify)$/, "vectors of texts are at /v1/embeddings, scores of pairs at /v1/score"],
  [/^\/v1\/[\w/]+\/render$/, "/tokenize gives the tokens of a text or a chat, /apply-template the text of a chat"],
  [/^\/v1\/(audio|images|videos|realtime)(\/|$)/, "this server reads and writes text only"],
  [/^\/(v1\/)?embed$/, "vectors of texts are at /v1/embeddings, in Cohere's shape at /v2/embed"],
  [/^\/(v1|v2)\/chat$/, "chats are at /v1/chat/completions"],
];

/**
 * The hint for an unknown path with a superfluous slash, a repeated /v1 or another server's path; otherwise undefined.
 */
export function pathHint(path: string): string | undefined {
  if (path.startsWith("/v1/v1/")) return "the base URL ends in /v1 already";
  const plain = path.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
  const [, elsewhere] = ELSEWHERE.find(([pattern]) => pattern.test(path)) ?? [];
  return plain === path ? elsewhere : `write it without the extra slash: ${plain}`;
}
