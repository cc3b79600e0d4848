import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { whileServingOthers, replicaRequest, type FaultContext } from './fault-context.ts';
import { FALSE_USAGE_NAMES } from './false-usage.ts';

/** What the log says of a replica that lies, at most once in this time, in milliseconds. */
const WARNING = 'replica reported impossible token counts';
const WARNING_EVERY_MS = 60_000;

const SHAPES = (['chat', 'text'] as const).flatMap((endpoint) =>
  [true, false].map((streamed) => ({ endpoint, streamed })),
);

/** Has a replica lie about its usage in every way, in whole responses and in streams. */
export async function lie(context: FaultContext): Promise<void> {
  const since = Date.now() - WARNING_EVERY_MS;
  await whileServingOthers(context, async () => {
    for (const name of FALSE_USAGE_NAMES) {
      const asking = SHAPES.map((shape) =>
        context.send(
          replicaRequest(context, 'hostile', {
            ...shape,
            lie: name,
            words: context.random.between(1, 60),
            spareTokens: context.random.between(1, 40),
          }),
        ),
      );
      for (const record of await Promise.all(asking)) {
        if (record.outcome.kind === 'complete') continue;
        context.report({
          kind: 'unserved',
          what: `a request to a replica that lies (${name}) failed`,
          record,
        });
      }
    }
  });
  if (!wasWarned(context, since))
    context.report({ kind: 'wrong', what: 'the log does not report the replica that lies' });
}

function wasWarned({ testbed, index }: FaultContext, since: number): boolean {
  const lines = readFileSync(join(testbed.folder, `instance-${index}.log`), 'utf8').split('\n');
  const last = lines.findLast((line) => line.includes(`"message":"${WARNING}"`));
  // A line of our own log.
  return last !== undefined && (JSON.parse(last) as { time: number }).time >= since;
}
