import { loggable } from '../database/errors.ts';
import type { Log } from '../support/log.ts';
import type { Condition } from '../core/alert-types.ts';

/** What a search found. */
export interface Findings {
  found: readonly Condition[];
  /** Firing conditions that it cannot judge now: their alerts are neither fired nor resolved. */
  kept: readonly string[];
}

interface FinderOptions {
  /** For the log. */
  name: string;
  /** Interval between searches, in milliseconds. A failed one is repeated with the next check. */
  everyMs: number;
  /** Whether the conditions of a type are those of this search. */
  covers: (type: string) => boolean;
  /** `firing`: the conditions of the alerts that are firing on any instance. */
  search: (now: number, firing: ReadonlySet<string>) => Promise<Findings>;
  log: Log;
}

/** One search for conditions. Its failures concern only its own alerts, which stay as they are. */
export class Finder {
  readonly #options: FinderOptions;
  #at = -Infinity;
  /** Null: the latest search failed. */
  #latest: Findings | null = { found: [], kept: [] };

  constructor(options: FinderOptions) {
    this.#options = options;
  }

  /** Returns what the search finds, or found within its interval. Never rejects. */
  async find(now: number, firing: ReadonlySet<string>): Promise<Findings> {
    const { name, everyMs, covers, search, log } = this.#options;
    if (hasPassed(everyMs, this.#at, now)) {
      try {
        this.#latest = await search(now, firing);
        this.#at = now;
      } catch (error) {
        if (this.#latest !== null)
          log.warn('cannot check for some alerts; will retry', { search: name, error: loggable(error) });
        this.#latest = null;
      }
    }
    return (
      this.#latest ?? { found: [], kept: [...firing].filter((key) => covers(key.slice(0, key.indexOf(':')))) }
    );
  }
}

/** Whether this time has passed since `since`, or the clock was set back by more than this time. */
export function hasPassed(ms: number, since: number, now: number): boolean {
  return Math.abs(now - since) >= ms;
}
