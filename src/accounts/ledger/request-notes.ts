/** What can be unusual about a request, with its condition in SQL. Most requests have no note. */
export const REQUEST_NOTES = {
  changed_input: {
    // Quotation marks inside the JSON's texts are escaped, so only the array of the notes matches.
    sql: `model_input like '%"notes":[%'`,
    description:
      'parts of the request had no effect, or were changed; `model_input` of the receipt lists them',
  },
  cache_miss: {
    sql: 'cache_miss is not null',
    description: 'prompt tokens were computed again that an earlier request of the account had sent',
  },
  retried: {
    sql: 'attempts > 1',
    description: 'it was sent again after a replica failed or refused it',
  },
  continued: {
    sql: 'continued_after is not null',
    description: 'another replica, or the restarted engine, continued the response',
  },
  truncated: {
    sql: "finish_reason = 'length'",
    description: 'the response reached the maximum number of tokens or the context length',
  },
  filtered: {
    sql: "finish_reason = 'content_filter'",
    description: 'the content filter of the provider withheld or cut off the response',
  },
  estimated: {
    // A server that reports the counts does so at the end, so those of a running request are always estimates.
    sql: "state <> 'open' and usage_source <> 'engine'",
    description: 'the replica did not report token counts, or impossible ones; the counts are estimates',
  },
} as const satisfies Record<string, { sql: string; description: string }>;

export type RequestNote = keyof typeof REQUEST_NOTES;
// The keys of the object.
export const NOTE_NAMES = Object.keys(REQUEST_NOTES) as RequestNote[];

/** SQL for the names of all notes of a row, separated by spaces. */
export const NOTES_SQL = `trim(${NOTE_NAMES.map(
  (name) => `case when ${REQUEST_NOTES[name].sql} then '${name} ' else '' end`,
).join(' || ')})`;

/** Describes the notes to callers and operators. */
export const NOTES_DESCRIPTION = NOTE_NAMES.map(
  (name) => `\`${name}\`: ${REQUEST_NOTES[name].description}`,
).join('. ');
