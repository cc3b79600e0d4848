/** One thing that was looked at. */
export interface Finding {
  subject: string;
  /** `note`: worth knowing, and the service starts all the same. `fault`: it would not start, or not serve. */
  status: 'good' | 'note' | 'fault';
  found: string;
  /** What to do about it; null: nothing. */
  advice: string | null;
}

/** Bytes as people read them, in binary units. */
export function readableBytes(bytes: number): string {
  const mebibytes = bytes / 1_048_576;
  return mebibytes < 1024 ? `${Math.round(mebibytes)} MiB` : `${(mebibytes / 1024).toFixed(1)} GiB`;
}
