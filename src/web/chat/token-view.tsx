/** An answer token by token: the model's probability of each token, and its alternatives. */
import { useSignal } from "@preact/signals";
import type { TokenChoice } from "./conversation.js";

const percent = (probability: number): string => `${(100 * probability).toFixed(1)} %`;

/** Tenths of probability are classes, because the page's policy forbids style attributes. */
const classOf = ({ probability }: TokenChoice): string => `token p${Math.min(9, Math.floor(10 * probability))}`;

export function TokenView({ tokens }: { readonly tokens: readonly TokenChoice[] }) {
  const chosen = useSignal<number | undefined>(undefined);
  const token = chosen.value === undefined ? undefined : tokens[chosen.value];
  return (
    <details class="tokens">
      <summary>{tokens.length} tokens with their probabilities</summary>
      <div class="token-list">
        {tokens.map((each, i) => (
          <button
            key={i}
            type="button"
            class={classOf(each)}
            aria-pressed={chosen.value === i}
            onClick={() => {
              chosen.value = i;
            }}
          >
            {each.text}
          </button>
        ))}
      </div>
      {token !== undefined && (
        <table class="alternatives">
          <thead>
            <tr>
              <th>Token</th>
              <th>Probability</th>
            </tr>
          </thead>
          <tbody>
            {(token.others.length > 0 ? token.others : [token]).map(({ text, probability }) => (
              <tr key={text}>
                <td>
                  <code>{JSON.stringify(text)}</code>
                </td>
                <td>{percent(probability)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </details>
  );
}
