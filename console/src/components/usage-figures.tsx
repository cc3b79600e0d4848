import type { ItemOf } from '../api/client.ts';
import { exactMoney, money } from '../format/money.ts';
import { compact, percent, whole } from '../format/number.ts';
import { Figure } from './card.tsx';

interface UsageFiguresProps {
  /** Undefined: no requests. */
  usage: ItemOf<'readUsage'> | undefined;
  className?: string;
}

export function UsageFigures({ usage, className = '' }: UsageFiguresProps) {
  const {
    requests = 0,
    errors = 0,
    prompt_tokens: prompt = 0,
    completion_tokens: completion = 0,
    cost_usd: cost = '0',
  } = usage ?? {};
  return (
    <dl className={`grid grid-cols-2 gap-x-4 gap-y-5 ${className}`}>
      <Figure label="Cost" value={<span title={exactMoney(cost)}>{money(cost)}</span>} />
      <Figure label="Requests" value={whole(requests)} />
      <Figure
        label="Tokens"
        value={<span title={whole(prompt + completion)}>{compact(prompt + completion)}</span>}
        note={`${compact(prompt)} in, ${compact(completion)} out`}
      />
      <Figure
        label="Errors"
        value={requests === 0 ? '—' : percent(errors / requests)}
        note={`${whole(errors)} of ${whole(requests)}`}
      />
    </dl>
  );
}
