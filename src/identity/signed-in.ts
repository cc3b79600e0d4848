import type { MemberRole } from '../database/schema.ts';

/** Who has signed in to the console. */
export interface SignedIn {
  /** Of the session, for lists of them; never the token that the cookie carries. */
  sessionId: string;
  /** When they signed in, Unix milliseconds. */
  since: number;
  person: {
    id: string;
    name: string;
    email: string;
    /** May manage the whole service. */
    operator: boolean;
    /** Has a second factor. */
    twoFactor: boolean;
  };
  /** The accounts that the person acts for, by id. */
  roles: ReadonlyMap<string, MemberRole>;
}
