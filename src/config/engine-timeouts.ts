import { z } from 'zod';
import { milliseconds } from './values.ts';

export const engineTimeoutsSchema = z
  .strictObject({
    stallMs: milliseconds(30_000, 1000).describe(
      'How long a busy embedded engine may go without progress before it is killed and restarted, in milliseconds. For slow engines the limit is 20 times the median step time, if that is longer.',
    ),
    loadStallMs: milliseconds(300_000, 1000).describe(
      'How long an embedded engine may load a model without progress before it is killed and restarted, in milliseconds.',
    ),
    idleUnloadMs: milliseconds(0).describe(
      'Time without requests after which an embedded model is unloaded, in milliseconds; 0: never. The next request waits until it is loaded again.',
    ),
    firstByteMs: milliseconds(300_000, 1000).describe(
      'How long a replica may take to send the first byte of a stream, in milliseconds.',
    ),
    responseMs: milliseconds(3_600_000, 1000).describe(
      'How long a replica may take for a response that it does not stream, in milliseconds; after that, 504 `response_timeout`.',
    ),
    silenceMs: milliseconds(120_000, 1000).describe(
      'How long a replica may pause in the middle of a response, in milliseconds.',
    ),
  })
  .prefault({})
  .describe('Timeouts of engines and replicas.');
