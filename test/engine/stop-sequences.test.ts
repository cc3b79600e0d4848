import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ServerDialect } from '../../src/core/generation.ts';
import { HttpReplica } from '../replicas/replicas.ts';
import { chat, collect, NEVER_ABORTED, text } from './requests.ts';

/** The field in which each server reports why a choice has stopped. */
const FIELDS = { vllm: 'stop_reason', sglang: 'matched_stop' } as const satisfies Partial<
  Record<ServerDialect, string>
>;

const CALL = { index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } };

interface Ending {
  reason?: string;
  /** The text, or the ID of the token, that ended the choice; undefined: not reported. */
  stopped?: unknown;
  calls?: boolean;
}

/** Starts a replica whose response has a choice with each of these endings, in the format of the request. */
function listen(dialect: keyof typeof FIELDS, endings: readonly Ending[]): Promise<HttpReplica> {
  return HttpReplica.listen(
    (response, { url }, { stream }) => {
      const isText = url === '/v1/completions';
      const choices = endings.map(({ reason = 'stop', stopped, calls = false }, index) => {
        const message = { content: 'Hel', ...(calls ? { tool_calls: [CALL] } : {}) };
        const output = isText ? { text: 'Hel' } : { [stream ? 'delta' : 'message']: message };
        return { index, output, end: { finish_reason: reason, [FIELDS[dialect]]: stopped } };
      });
      const usage = { prompt_tokens: 7, completion_tokens: 5 };
      if (!stream) {
        const whole = choices.map(({ index, output, end }) => ({ index, ...output, ...end }));
        return response.end(JSON.stringify({ choices: whole, usage }));
      }
      const frames = choices.flatMap(({ index, output, end }) => [
        { choices: [{ index, ...output, finish_reason: null, [FIELDS[dialect]]: null }], usage },
        { choices: [{ index, ...(isText ? { text: '' } : { delta: {} }), ...end }], usage },
      ]);
      return response.end(
        `${frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('')}data: [DONE]\n\n`,
      );
    },
    { dialect },
  );
}

for (const dialect of ['vllm', 'sglang'] as const) {
  for (const stream of [true, false]) {
    test(`${stream ? 'a stream' : 'a response'} of ${dialect} reports the stop sequence that ended a choice`, async () => {
      await using replica = await listen(dialect, [
        { stopped: 'END' },
        { stopped: 'other' },
        { stopped: 151_645 },
        { stopped: null },
        {},
        { reason: 'length', stopped: 'END' },
      ]);
      for (const create of [chat, text]) {
        const request = create({}, { stream, choices: 6, stop: ['\n', 'END'] });
        const events = await collect(replica.client.generate(request, NEVER_ABORTED));
        assert.deepEqual(
          events.flatMap((event) => (event.type === 'finish' ? [event.stopSequence] : [])),
          ['END', null, null, null, null, null],
        );
      }
    });

    test(`${stream ? 'a stream' : 'a response'} of ${dialect} with a call reports no stop sequence`, async () => {
      await using replica = await listen(dialect, [{ stopped: 'END', calls: true }]);
      const request = chat({}, { stream, stop: ['END'] });
      const events = await collect(replica.client.generate(request, NEVER_ABORTED));
      assert.deepEqual(events.at(-2), {
        type: 'finish',
        choice: 0,
        reason: 'tool_calls',
        stopSequence: null,
      });
    });
  }
}
