import type { Element } from '../../api/client.ts';
import type { Choice } from '../../components/select.tsx';
import { limitsSet, limitWords } from '../../format/limits.ts';

type Plan = Element<'listPlans'>;

/** Select value of the default plan. No plan has an empty name. */
const STANDARD = '';

/** Convert between a plan name, or null for the default plan, and a select value. */
export const planChoice = (plan: string | null): string => plan ?? STANDARD;
export const chosenPlan = (choice: string): string | null => (choice === STANDARD ? null : choice);

/** Returns the configured plans, starting with "Default plan", which follows changes of the default. */
export function planChoices(plans: readonly Plan[]): Choice<string>[] {
  const standard = plans.find((plan) => plan.default);
  return [
    { value: STANDARD, label: `Default plan${standard ? ` (${standard.name})` : ''}` },
    ...plans.flatMap(({ name, limits }) =>
      limits === null ? [] : [{ value: name, label: name, hint: hintOf(limits) }],
    ),
  ];
}

function hintOf(limits: NonNullable<Plan['limits']>): string {
  const words = limitsSet(limits).map(({ limit, bound }) => limitWords(limit, bound));
  return words.length === 0 ? 'No limits' : words.slice(0, 2).join(', ');
}
