import type { ItemOf } from '../../api/client.ts';
import type { Choice } from '../../components/select.tsx';
import { limitsSet, limitText } from '../../format/limits.ts';

type Plan = ItemOf<'listPlans'>;

/** Select value of the default plan. No plan has an empty name. */
const DEFAULT_PLAN = '';

/** Convert a plan name (null: the default plan) to a select value, and back. */
export const planChoice = (plan: string | null): string => plan ?? DEFAULT_PLAN;
export const chosenPlan = (choice: string): string | null => (choice === DEFAULT_PLAN ? null : choice);

/** Returns the configured plans, starting with "Default plan", which follows changes to the default. */
export function planChoices(plans: readonly Plan[]): Choice<string>[] {
  const defaultPlan = plans.find((plan) => plan.default);
  return [
    { value: DEFAULT_PLAN, label: `Default plan${defaultPlan ? ` (${defaultPlan.name})` : ''}` },
    ...plans.flatMap(({ name, limits }) =>
      limits === null ? [] : [{ value: name, label: name, hint: hintOf(limits) }],
    ),
  ];
}

function hintOf(limits: NonNullable<Plan['limits']>): string {
  const texts = limitsSet(limits).map(({ limit, bound }) => limitText(limit, bound));
  return texts.length === 0 ? 'No limits' : texts.slice(0, 2).join(', ');
}
