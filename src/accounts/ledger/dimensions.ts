/** Dimensions by which usage can be grouped. */
export const USAGE_DIMENSIONS = ['hour', 'day', 'model', 'key', 'account'] as const;
export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];

/** Outcomes of requests, as counted by the daily roll-ups. */
export const REQUEST_OUTCOMES = ['completed', 'error', 'client_disconnected', 'interrupted'] as const;
export type RequestOutcome = (typeof REQUEST_OUTCOMES)[number];
