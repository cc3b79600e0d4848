/** A clock that starts at noon (UTC), for tests of days, which would fail if midnight came while they run. */

const DAY_MS = 86_400_000;

/** How far the clock of this process is ahead of the system's, in milliseconds. */
export const noon = { offsetMs: 0 };

/** Sets the clock of this process, and of the pages of new visitors, to noon of this day, from where it continues. */
export function startAtNoon(): void {
  noon.offsetMs = DAY_MS / 2 - (Date.now() % DAY_MS);
  shiftClock(noon.offsetMs);
}

/** Moves the clock of a process or page. */
export function shiftClock(offsetMs: number): void {
  const system = Date;
  const now = () => system.now() + offsetMs;
  globalThis.Date = new Proxy(system, {
    construct: (target, given, newTarget): Date =>
      Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget) as Date,
    get: (target, name, receiver): unknown => (name === 'now' ? now : Reflect.get(target, name, receiver)),
  });
}
