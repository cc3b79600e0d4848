import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { TerminalLog } from '../../src/commands/terminal-log.ts';
import { openLog } from '../../src/support/log.ts';
import { until } from '../harness.ts';
import { FakeHub } from '../models/fake-hub.ts';
import { buildGguf } from '../models/gguf-builder.ts';
import { folder, runAlone } from './program.ts';
import { NEEDS_PTY, startOnTerminal, terminal } from './terminals.ts';

test('lines are printed above the status line, which is cut to the width of the terminal', () => {
  const written: string[] = [];
  const screen = terminal(written, 10);
  screen.print('one');
  screen.setStatus('0123456789abc');
  screen.setStatus('0123456789xyz');
  screen.print('two');
  screen.setStatus('');
  assert.deepEqual(written, ['one\n', '\r\x1b[2K012345678', '\r\x1b[2Ktwo\n012345678', '\r\x1b[2K']);
});

describe('the log on a terminal', () => {
  function openTerminalLog() {
    const lines: string[] = [];
    const format = new TerminalLog((line) => lines.push(line.replace(/^\d\d:\d\d:\d\d {2}/, '')), false);
    return { lines, format, log: openLog('info', format) };
  }

  test('prints one line per event', () => {
    const { lines, log } = openTerminalLog();
    const engine = log.with({ engine: 'acme/model' });
    engine.info('loading the model', { memory: 'weights 98 MB' });
    engine.info(
      'the chat template does not support tools; tools are described in the system message instead',
    );
    engine.info('engine ready', { pid: 7, slots: 4, backend: 'cpu, 2 threads' });
    log.info('ready', { url: 'http://127.0.0.1:8080' });
    engine.error('engine crashed; restarting', { reason: 'killed by SIGKILL', crashes: 1, pauseMs: 200 });
    log.warn('email not sent', { error: new Error('refused') });
    log.info('stopping', { running: 2, drainMs: 30_000 });
    log.info('request', {
      path: '/v1/chat/completions',
      status: 200,
      code: null,
      model: 'acme/model',
      promptTokens: 12,
      completionTokens: 34,
      totalMs: 1234.5,
    });
    log.warn('request refused', { path: '/v1\u009b2J', code: 'not_found' });
    log.warn('replica is down', { reason: '\u001b]0;x\u0007no' });
    assert.deepEqual(lines, [
      'Loading acme/model: weights 98 MB',
      'acme/model has a chat template without tools; they are described in the system message instead',
      'acme/model is ready: cpu, 2 threads, 4 slots',
      'error  engine crashed; restarting  engine=acme/model  reason="killed by SIGKILL"  crashes=1  pauseMs=200',
      'warning  email not sent  error="Error: refused"',
      'Stopping; requests still running: 2',
      'POST /v1/chat/completions  200  acme/model  12 + 34 tokens  1.2 s',
      'warning  Refused  /v12J  not_found',
      'warning  replica is down  reason=]0;xno',
    ]);
  });

  test('colors the time, the level and failed requests, only if colors are enabled', () => {
    const request = { path: '/v1/completions', code: null, model: 'a', promptTokens: 1, completionTokens: 2 };
    const write = (colored: boolean): string[] => {
      const lines: string[] = [];
      const log = openLog('debug', new TerminalLog((line) => lines.push(line), colored));
      log.warn('email not sent');
      log.debug('checked');
      log.info('request', { ...request, status: 200, totalMs: 100 });
      log.info('request', { ...request, status: 503, code: 'queue_full', totalMs: 100 });
      log.info('request refused', { requestId: 'x', path: '/v1/completions', code: 'invalid_json' });
      log.info('token count', { path: '/v1/count', model: 'a', promptTokens: 12, exact: true, totalMs: 100 });
      return lines.map((line) => line.replace(/\d\d:\d\d:\d\d/, 'T'));
    };
    const [dim, yellow, red] = ['\x1b[2mT\x1b[22m', '\x1b[33m', '\x1b[31m'];
    assert.deepEqual(write(true), [
      `${dim}  ${yellow}warning\x1b[39m  email not sent`,
      `${dim}  \x1b[2mdebug\x1b[22m  checked`,
      `${dim}  POST /v1/completions  200  a  1 + 2 tokens  0.1 s`,
      `${dim}  ${red}POST /v1/completions  503 queue_full  a  1 + 2 tokens  0.1 s\x1b[39m`,
      `${dim}  ${yellow}Refused  /v1/completions  invalid_json\x1b[39m`,
      `${dim}  POST /v1/count  a  12 tokens  0.1 s`,
    ]);
    assert.deepEqual(
      write(false),
      write(true).map((line) => stripVTControlCharacters(line)),
    );
  });

  test('is not repeated in the error message of a failed start', () => {
    const { lines, format, log } = openTerminalLog();
    const reason =
      'Could not download m.gguf from any source:\n  - hf:o/r/m.gguf: no network\nTo use a file:';
    log.warn('download source failed', { file: '/m.gguf', source: 'hf:o/r/m.gguf', reason: 'no network' });
    log.error('cannot start the model', { model: 'acme/model', reason });
    assert.deepEqual(lines, [
      'warning  Could not download from hf:o/r/m.gguf: no network',
      'error  Cannot serve acme/model: Could not download m.gguf from any source:',
    ]);
    assert.equal(format.withoutPrinted(`Cannot serve acme/model: ${reason}`), 'To use a file:');
  });
});

describe('serve on a terminal', NEEDS_PTY, () => {
  test('reports a failed source once, in one line, and writes no JSON', async (context) => {
    await using hub = await FakeHub.open();
    hub.status = 404;
    using service = await serve(context, hub);
    assert.equal(await service.ended, 1);
    const text = stripVTControlCharacters(service.text());
    assert.equal(text.match(/\b404\b/g)?.length, 1, text);
    assert.match(text, /warning {2}Could not download from hf:owner\/repo\/tiny\.gguf: .*404/);
    assert.match(text, /error {2}Cannot serve test\/model: Could not download tiny\.gguf from any source:/);
    assert.match(text, /copy it to .*tiny\.gguf/);
    assert.doesNotMatch(text, /\{"/);
  });

  test('reports that a download interrupted with Ctrl-C resumes at the next start, and exits with 130', async (context) => {
    await using hub = await FakeHub.open();
    hub.files.set('tiny.gguf', buildGguf());
    hub.script = [{ stallAfter: 100 }];
    using service = await serve(context, hub);
    await until(() => service.text().includes('Downloading tiny.gguf'));
    service.type('\x03');
    assert.equal(await service.ended, 130);
    const text = stripVTControlCharacters(service.text());
    assert.match(text, /Download interrupted\. It resumes at the next start\.\r\n$/);
    assert.doesNotMatch(text, /\{"/);
  });
});

for (const [name, logFormat, pattern] of [
  ['JSON lines on a terminal', 'json', /^\{"level":"warn",.*"message":"download source failed"\}\r$/m],
  ['readable lines, without colors if NO_COLOR is set', 'human', /^\d\d:\d\d:\d\d {2}warning {2}Could not/m],
] as const) {
  test(`logFormat: ${logFormat} writes ${name}`, NEEDS_PTY, async (context) => {
    await using hub = await FakeHub.open();
    hub.status = 404;
    using service = await serve(context, hub, `logFormat: ${logFormat}\n`, { NO_COLOR: '1' });
    assert.equal(await service.ended, 1);
    assert.match(service.text().replaceAll('\r\x1b[2K', '\n'), pattern);
  });
}

test('logFormat: human writes readable lines to a file', async (context) => {
  await using hub = await FakeHub.open();
  hub.status = 404;
  const home = folder(context);
  const config = join(home, 'sluice.yaml');
  await writeFile(config, `logFormat: human\n${YAML}`);
  const env = {
    SLUICE_HOME: join(home, 'data'),
    SLUICE_PORT: '0',
    SLUICE_CONFIG: config,
    HF_ENDPOINT: hub.endpoint,
  };
  const { code, stderr } = await runAlone(['serve'], env);
  assert.equal(code, 1);
  assert.match(stderr, /^\d\d:\d\d:\d\d {2}warning {2}Could not download from/m);
});

const YAML =
  'console: {enabled: false}\nmodels: [{id: test/model, engine: {file: hf:owner/repo/tiny.gguf}}]\n';

async function serve(
  context: Parameters<typeof folder>[0],
  hub: FakeHub,
  yaml = '',
  env: NodeJS.ProcessEnv = {},
) {
  const home = folder(context);
  const config = join(home, 'sluice.yaml');
  await writeFile(config, yaml + YAML);
  return startOnTerminal(['serve'], {
    SLUICE_HOME: join(home, 'data'),
    SLUICE_PORT: '0',
    SLUICE_CONFIG: config,
    HF_ENDPOINT: hub.endpoint,
    ...env,
  });
}
