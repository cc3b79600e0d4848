/** The result of one check. */
export interface Finding {
  subject: string;
  /** `note`: does not prevent the service from starting. `fault`: the service cannot start or cannot serve. */
  status: 'good' | 'note' | 'fault';
  found: string;
  /** How to fix it; null if there is nothing to fix. */
  advice: string | null;
}
