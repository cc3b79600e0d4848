/** The series color of each measure, the same on all pages. The colors are in `styles.css`. */
export const COLORS = {
  requests: 4,
  completed: 4,
  errors: 5,
  disconnected: 2,
  interrupted: 6,
  refused: 2,
  prompt: 3,
  uncached: 3,
  cached: 7,
  completion: 1,
  answer: 1,
  reasoning: 10,
  cost: 9,
  ttft: 8,
  /** The stages of a request: prefill processes the prompt, decode generates the completion. */
  queue: 6,
  prefill: 3,
  decode: 1,
} as const;

/** Returns the color of a group, such as a model, by its rank; at most five have their own. */
export const groupColor = (rank: number): number => rank + 1;

/** The shared color of the groups that do not have their own. */
export const OTHER_COLOR = 6;
