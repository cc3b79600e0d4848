import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { besideAnother, wishOf, type Blow } from './blow.ts';
import { LIE_NAMES } from './lies.ts';

/** What the log says of a replica that lies, at most once in this time, in milliseconds. */
const WARNING = 'replica reported impossible token counts';
const WARNING_EVERY_MS = 60_000;

const SHAPES = (['chat', 'text'] as const).flatMap((endpoint) =>
  [true, false].map((streamed) => ({ endpoint, streamed })),
);

/** Has a replica lie about its usage in every way, in whole responses and in streams. */
export async function lie(blow: Blow): Promise<void> {
  const since = Date.now() - WARNING_EVERY_MS;
  await besideAnother(blow, async () => {
    for (const name of LIE_NAMES) {
      const asking = SHAPES.map((shape) =>
        blow.ask(
          wishOf(blow, 'hostile', {
            ...shape,
            lie: name,
            words: blow.random.between(1, 60),
            spareTokens: blow.random.between(1, 40),
          }),
        ),
      );
      for (const entry of await Promise.all(asking)) {
        if (entry.ending.how === 'whole') continue;
        blow.report({ kind: 'unserved', what: `a request to a replica that lies (${name}) failed`, entry });
      }
    }
  });
  if (!wasWarned(blow, since))
    blow.report({ kind: 'wrong', what: 'the log does not report the replica that lies' });
}

function wasWarned({ stage, index }: Blow, since: number): boolean {
  const lines = readFileSync(join(stage.folder, `copy-${index}.log`), 'utf8').split('\n');
  const last = lines.findLast((line) => line.includes(`"message":"${WARNING}"`));
  // A line of our own log.
  return last !== undefined && (JSON.parse(last) as { time: number }).time >= since;
}
