import type { Element } from '../../api/client.ts';
import type { Choice } from '../../components/select.tsx';
import { limitsSet, limitWords } from '../../format/limits.ts';

type Plan = Element<'listPlans'>;

/** Stands for the default plan among choices, where null cannot. No plan has an empty name. */
const STANDARD = '';

/** The plans that an account can be put on, and how a choice and the name of a plan become each other. */
export const planChoice = (plan: string | null): string => plan ?? STANDARD;
export const chosenPlan = (choice: string): string | null => (choice === STANDARD ? null : choice);

/** Those of the configuration, the default one first: an account on it follows when another plan becomes it. */
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
