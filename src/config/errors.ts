/** An error in the configuration. */
export interface ConfigIssue {
  /** Path in the file, such as `models[0].engine.slots`, or the name of an environment variable. */
  path: string;
  /** Counted from 1; null if the issue has no position in the file. */
  line: number | null;
  column: number | null;
  /** The accepted values, as a noun phrase such as `a whole number from 1 to 64`. */
  expected: string;
  /** Describes the issue without its position. */
  message: string;
}

/** The configuration is invalid. The message lists every issue with its position, one per line. */
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
  const position = issue.line === null ? [] : [`line ${issue.line}, column ${issue.column ?? 1}`];
  const path = issue.path === '' ? [] : [issue.path];
  return [...position, ...path, issue.message].join(': ');
}

/** Returns an issue of an environment variable. */
export function environmentIssue(name: string, expected: string, found: string): ConfigIssue {
  return { path: name, line: null, column: null, expected, message: `expected ${expected}; ${found}` };
}
