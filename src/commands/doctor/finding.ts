/** The result of one check. */
export interface Finding {
  subject: string;
  /** `note`: does not prevent the service from starting. `fault`: the service cannot start or cannot serve. */
  status: 'good' | 'note' | 'fault';
  found: string;
  /** How to fix it; null if there is nothing to fix. */
  advice: string | null;
}

/** Formats bytes in MiB or GiB. */
export function readableBytes(bytes: number): string {
  const mebibytes = bytes / 1_048_576;
  return mebibytes < 1024 ? `${Math.round(mebibytes)} MiB` : `${(mebibytes / 1024).toFixed(1)} GiB`;
}
