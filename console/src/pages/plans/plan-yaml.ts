import type { ItemOf } from '../../api/client.ts';

export type Plan = ItemOf<'listPlans'>;
export type Limits = NonNullable<Plan['limits']>;

/** A plan of the configuration. */
export interface ConfiguredPlan {
  name: string;
  limits: Limits;
  weight: number;
}

/** Returns the plans that the configuration has. */
export function configured(plans: readonly Plan[]): ConfiguredPlan[] {
  return plans.flatMap(({ name, limits, weight }) =>
    limits === null ? [] : [{ name, limits, weight: weight ?? 1 }],
  );
}

/** Returns `plans` and `defaultPlan` of the configuration file. */
export function plansYaml(plans: readonly ConfiguredPlan[], defaultPlan: string): string {
  const lines = plans.flatMap(({ name, limits, weight }) => {
    const entries = linesOf({ ...limits, ...(weight !== 1 && { weight }) }, '    ');
    return entries.length === 0 ? [`  ${keyOf(name)}: {}`] : [`  ${keyOf(name)}:`, ...entries];
  });
  return ['plans:', ...lines, `defaultPlan: ${keyOf(defaultPlan)}`, ''].join('\n');
}

/** Returns an object as lines of YAML. Its names are those of the API, except the IDs of models. */
function linesOf(object: object, indent: string): string[] {
  return Object.entries(object).flatMap(([name, value]: [string, unknown]) => {
    if (value === undefined) return [];
    const key = name.includes('/') ? JSON.stringify(name) : camelCase(name);
    if (typeof value !== 'object' || value === null) return [`${indent}${key}: ${JSON.stringify(value)}`];
    const inner = linesOf(value, `${indent}  `);
    return inner.length === 0 ? [`${indent}${key}: {}`] : [`${indent}${key}:`, ...inner];
  });
}

const camelCase = (name: string): string =>
  name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** Quotes what YAML reads as another type, such as `no`, `1` or `1e3`. */
const keyOf = (name: string): string =>
  /^[a-z][a-z0-9_-]*$/.test(name) && !/^(?:y|n|yes|no|on|off|true|false|null)$/.test(name)
    ? name
    : JSON.stringify(name);
