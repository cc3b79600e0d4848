/** One fault of the configuration. */
export interface ConfigIssue {
  /** Where in the file, such as `models[0].engine.slots`; or the name of an environment variable. */
  path: string;
  /** Counted from 1; null where the fault has no place in the file. */
  line: number | null;
  column: number | null;
  /** What should stand there, as a noun phrase. */
  expected: string;
  /** One sentence about the fault without its place: for people. */
  message: string;
}

/** The configuration cannot be used. Its message lists every fault with its place, one a line. */
export class ConfigError extends Error {
  readonly issues: readonly ConfigIssue[];

  constructor(configPath: string | null, issues: readonly ConfigIssue[]) {
    const sorted = [...issues].sort(
      (a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0),
    );
    const title = `The configuration${configPath === null ? '' : ` ${configPath}`} is invalid:`;
    super([title, ...sorted.map((issue) => `  ${describe(issue)}`)].join('\n'));
    this.name = 'ConfigError';
    this.issues = sorted;
  }
}

function describe(issue: ConfigIssue): string {
  const place = issue.line === null ? [] : [`line ${issue.line}, column ${issue.column ?? 1}`];
  const path = issue.path === '' ? [] : [issue.path];
  return [...place, ...path, issue.message].join(': ');
}
