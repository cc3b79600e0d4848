import { Disclosure } from '../../components/disclosure.tsx';
import type { TokenLogprob } from '../../api/generate.ts';
import { percent } from '../../format/number.ts';

/** Maximum number of tokens shown, to keep the page fast. */
const MAX_SHOWN = 500;

/** The probability of each token, and its most likely alternatives. */
export function Logprobs({ tokens }: { tokens: readonly TokenLogprob[] }) {
  const alternatives = tokens.some(({ top }) => top.length > 0);
  return (
    <Disclosure className="mt-2.5" label="Log probabilities">
      <div tabIndex={0} className="mt-2 max-h-72 overflow-auto rounded-lg border border-line">
        <table className="w-full text-xs" aria-label="Log probabilities of the tokens">
          <thead className="sticky top-0 bg-sunken text-left text-ink-3">
            <tr>
              <th className="px-3 py-1.5 font-medium">Token</th>
              <th className="px-3 py-1.5 text-right font-medium">Probability</th>
              <th className="px-3 py-1.5 text-right font-medium">Logprob</th>
              {alternatives && <th className="w-full px-3 py-1.5 font-medium">Top tokens</th>}
            </tr>
          </thead>
          <tbody className="divide-y divide-line">
            {tokens.slice(0, MAX_SHOWN).map(({ token, logprob, top }, index) => (
              // Tokens repeat, so only their index is unique.
              <tr key={`${index}`}>
                <td className="px-3 py-1 font-mono whitespace-pre">{shown(token)}</td>
                <td className="px-3 py-1 text-right">{percent(Math.exp(logprob))}</td>
                <td className="px-3 py-1 text-right text-ink-3">{logprob.toFixed(4)}</td>
                {alternatives && (
                  <td className="px-3 py-1 text-ink-3">
                    {top.map((other) => (
                      <span key={other.token} className="mr-3 inline-block whitespace-pre">
                        <span className="font-mono text-ink-2">{shown(other.token)}</span>{' '}
                        {percent(Math.exp(other.logprob))}
                      </span>
                    ))}
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {tokens.length > MAX_SHOWN && (
        <p className="mt-1 text-xs text-ink-3">
          Showing the first {MAX_SHOWN} of {tokens.length} tokens
        </p>
      )}
    </Disclosure>
  );
}

/** Makes whitespace visible. */
function shown(token: string): string {
  return token.replaceAll('\n', '↵').replaceAll('\t', '⇥').replaceAll(' ', '·');
}
