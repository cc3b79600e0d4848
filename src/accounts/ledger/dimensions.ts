/** By what usage is summed. */
export const USAGE_DIMENSIONS = ['hour', 'day', 'model', 'key', 'account'] as const;
export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];

/** How requests end, as the sums of a day count them. */
export const REQUEST_OUTCOMES = ['completed', 'error', 'hung_up', 'interrupted'] as const;
export type RequestOutcome = (typeof REQUEST_OUTCOMES)[number];
