import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { ONE_WORD } from '../../support/default-model.ts';
import { fillQueue, killEngine, limitedKeys, REAL, startForClients } from './fixture.ts';
import { run, untilIdle } from '../../harness.ts';
import { python, WITH_PYTHON } from './python.ts';

const SCRIPT = join(import.meta.dirname, 'openai_python.py');

describe('openai for Python', WITH_PYTHON, async () => {
  if (python === '') return;
  const service = await startForClients();
  after(() => service[Symbol.asyncDispose]());

  let full: AsyncDisposable | null = null;
  const keys = await limitedKeys(service);
  const controls: Record<string, () => Promise<string | void>> = {
    '/brief-key': keys.brief,
    '/wait-100-ms': async () => service.clock.advance(100),
    '/fill': async () => void (full = await fillQueue(service)),
    '/release': async () => full?.[Symbol.asyncDispose](),
    '/kill': () => killEngine(service),
    '/slots-free': () => untilIdle(service),
  };
  const control = createServer((request, response) => {
    const result = controls[request.url ?? '']?.() ?? Promise.reject(new Error('unknown control'));
    result.then(
      (text) => response.end(text ?? ''),
      () => response.writeHead(500).end(),
    );
  }).listen(0, '127.0.0.1');
  after(() => control.close());
  await once(control, 'listening');
  const { port } = control.address() as AddressInfo; // The server listens on TCP.

  const env = {
    ...process.env,
    SLUICE_URL: service.url,
    SLUICE_KEY: service.key,
    SLUICE_SPENT_KEY: keys.spent,
    SLUICE_ELSEWHERE_KEY: keys.otherModel,
    SLUICE_ONE_WORD: JSON.stringify(ONE_WORD),
    SLUICE_CONTROL: `http://127.0.0.1:${port}`,
    ...(process.env.SLUICE_TEST_MODEL === undefined ? {} : { SLUICE_REAL_MODEL: REAL }),
  };
  const skipped = process.env.SLUICE_TEST_MODEL === undefined ? ' \\(skipped=3\\)' : '';
  const passed = new RegExp(`^Ran [1-9]\\d* tests[^]*\nOK${skipped}\n$`, 'm');
  test('the synchronous and the asynchronous client', async () => {
    const { code, stderr } = await run(python, [SCRIPT, '-v'], env);
    assert.equal(code, 0, stderr);
    assert.match(stderr, passed);
  });
});
