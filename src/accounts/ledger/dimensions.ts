/** By what usage is summed. */
export const USAGE_DIMENSIONS = ['day', 'model', 'key', 'account'] as const;
export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];
