import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { writeFile } from 'node:fs/promises';
import { ChatClient } from '../../src/commands/chat/client.ts';
import { Conversation } from '../../src/commands/chat/conversation.ts';
import { modelNamed } from '../../src/support/nearest.ts';
import { MessageReader } from '../../src/commands/chat/message-reader.ts';
import { printable } from '../../src/commands/output.ts';
import { MODEL, scriptedYaml, startService, until, untilIdle, type TestService } from '../harness.ts';
import { folder, run, runAlone, start } from './program.ts';
import { NEEDS_PTY, startOnTerminal, terminal } from './terminals.ts';

const NEVER = new AbortController().signal;

describe('sluice chat', () => {
  let service: TestService;
  let env: NodeJS.ProcessEnv;

  before(async () => {
    const second = `  - id: other/Second\n    engine: {file: 'scripted:{}'}\naliases: {short: ${MODEL}}\n`;
    service = await startService(scriptedYaml({ tokens: 3 }, second));
    ({ env } = service);
  });
  after(() => service[Symbol.asyncDispose]());

  /** Returns a question to which the model responds with this text. */
  const asks = (text: string, more: object = {}) => `Say it. scripted:${JSON.stringify({ text, ...more })}`;

  test('a question is answered on standard output, with nothing else', async () => {
    const answered = await run(['chat', asks('Hello\u001b[31m!', { reasoning: 'hm' })], env);
    assert.deepEqual(answered, { stdout: 'Hello[31m!\n', stderr: '', code: 0 });
    const named = await run(
      ['chat', '--verbose', 'second', 'Say', 'it.', 'scripted:{"text":"Yes, it is."}'],
      env,
    );
    assert.equal(named.stdout, 'Yes, it is.\n');
    assert.match(
      named.stderr,
      /^prompt \d+ tokens \(0 cached\), first token after [\d.]+ s, response \d+ tokens at [\d.]+ tokens\/s\n$/,
    );
    assert.equal((await run(['chat', 'short', asks('By an alias.')], env)).stdout, 'By an alias.\n');
    const word = await run(['chat', '--verbose', 'hi'], env);
    assert.match(word.stderr, /response 3 tokens/);
  });

  test('its key is revoked at the end, and lists do not show it', async () => {
    await run(['chat', asks('Hello')], env);
    const { stdout } = await run(['audit', 'list', '--json'], env);
    const entries = JSON.parse(stdout) as { action: string; subject: string; detail: { purpose?: string } }[];
    const ours = entries
      .filter(({ action, detail }) => action === 'key.create' && detail.purpose === 'playground')
      .map(({ subject }) => subject);
    const revoked = entries.filter(({ action }) => action === 'key.revoke').map(({ subject }) => subject);
    assert(ours.length > 0);
    assert.deepEqual(ours.toSorted(), revoked.toSorted());
    assert.ok(!(await run(['keys', 'list'], env)).stdout.includes('sluice chat'));
  });

  test('failures exit with 1 and say what to do', async () => {
    const failing = async (args: string[], more: NodeJS.ProcessEnv = {}) => {
      const { stdout, stderr, code } = await run(['chat', ...args], { ...env, ...more });
      assert.equal(code, 1, stdout);
      return stderr;
    };
    for (const args of [[], ['second'], ['Qwen3-0.6B'], ['no/model']])
      assert.match(await failing(args), /^There is no question\. Add one as an argument/);
    const postgres = { SLUICE_DATABASE_URL: 'postgres://127.0.0.1:9/sluice', SLUICE_PORT: '9' };
    assert.match(await failing(['Hello there'], postgres), /No service listens on .* `--url`/);
    assert.match(await failing(['no-such-model', 'Hello there']), /no-such-model is not in the catalog/);
    assert.match(await failing(['--account', 'nobody', 'Hello there']), /account does not exist/);
    assert.match(await failing(['--url', service.url, 'Hello there']), /SLUICE_API_KEY/);
    const key = { SLUICE_API_KEY: 'wrong' };
    assert.match(await failing(['--url', service.url, 'Hello there'], key), /API key/);
    const unused = { SLUICE_API_KEY: service.key };
    assert.match(
      await failing(['--url', 'http://127.0.0.1:9/v1', 'Hello there'], unused),
      /^Cannot reach the service at http:\/\/127\.0\.0\.1:9: /,
    );
    assert.match(
      await failing(['--url', service.url, 'nothing', 'Hello there'], unused),
      /`nothing` does not exist/,
    );
    assert.match(await failing([asks('one two three four five', { errorAfter: 1 })]), /failed|engine/i);
  });

  test('a response ends when its reader does, as after `| head`', async () => {
    const words = 'word '.repeat(200);
    const child = start(['chat', asks(words, { tokenMs: 100 })], env);
    assert.ok(child.stdout);
    await once(child.stdout, 'data');
    child.stdout.destroy();
    const [code] = (await once(child, 'close')) as unknown[];
    assert.equal(code, 0);
    let last = '';
    await until(async () => {
      const { stdout } = await run(['ledger', 'export', '--format', 'jsonl'], env);
      last = stdout.trimEnd().split('\n').at(-1) ?? '';
      return !last.includes('"state":"open"');
    });
    // The key may be revoked before the service notices the disconnect.
    assert.match(last, /"error_code":"(?:client_disconnected|invalid_api_key)"/);
  });

  test('another machine is reached with its URL and a key', async (context) => {
    const elsewhere = { SLUICE_HOME: folder(context), SLUICE_API_KEY: service.key };
    const { stdout, code } = await run(
      ['chat', '--url', `${service.url}/v1/`, asks('From afar.')],
      elsewhere,
    );
    assert.deepEqual({ stdout, code }, { stdout: 'From afar.\n', code: 0 });
  });

  test('without a running service, one is started until the chat ends', async (context) => {
    const home = folder(context);
    const config = join(home, 'sluice.yaml');
    const own = { SLUICE_HOME: home, SLUICE_CONFIG: config };
    // The secrets of the service are not in the environment of the command.
    const pager = 'alerts:\n  webhooks: [{name: pager, urlEnv: PAGER_URL, secretEnv: PAGER_SECRET}]\n';
    for (const plans of ['', 'plans: {other: {}}\ndefaultPlan: other\n']) {
      await writeFile(config, scriptedYaml({}, `${pager}${plans}`));
      const { stdout, stderr, code } = await runAlone(['chat', asks('Started.')], own);
      assert.deepEqual({ stdout, code }, { stdout: 'Started.\n', code: 0 }, stderr);
      assert.match(stderr, /^Starting a service until the chat ends …\n/);
    }
    const { stdout: audit } = await run(['audit', 'list', '--json'], own);
    assert.doesNotMatch(audit, /plan\./);
  });

  test('a terminal has commands, reasoning, and responses that Ctrl+C stops', NEEDS_PTY, async () => {
    // Node shows no colors if `CI` is set.
    const { CI: _, ...colored } = env;
    using terminal = startOnTerminal(['chat', '--system', 'Be brief.'], colored);
    /** Types a line, and waits until the prompt follows what it caused. Returns that. */
    const type = async (line: string) => {
      const from = terminal.text().length;
      terminal.type(`${line}\r`);
      await until(() => terminal.text().slice(from).endsWith('>>> \u001b[5G'));
      return terminal.text().slice(from);
    };
    await until(() => terminal.text().endsWith('>>> \u001b[5G'));
    assert.ok(
      terminal.text().startsWith(`${MODEL}. Type a message, /help for help, or Ctrl+D to leave.\r\n`),
    );
    assert.match(await type('/help'), /\/model \[name\] {3}.*\/bye/s);
    assert.match(await type('/system'), /System message: Be brief\./);
    assert.match(await type('/system off'), /System message: none/);
    assert.match(await type('/model'), new RegExp(`\\* ${MODEL}\r\n  other/Second`));
    assert.match(await type('/model nothing'), /The service has no model nothing\./);
    assert.match(await type('/model SECOND'), /The next message goes to other\/Second\./);
    assert.match(await type('/nonsense'), /Unknown command: \/nonsense\./);
    const answered = await type(asks('Yes.', { reasoning: 'Is it?' }));
    // The text is dimmed and then normal.
    assert.ok(answered.includes('\u001b[2mThinking …\u001b[22m\r\n\u001b[2m'), answered);
    assert.ok(answered.includes('\r\n\r\nYes.\r\n'), answered);
    assert.match(await type('/etc/hosts scripted:{"text":"A file."}'), /A file\./);
    assert.match(
      await type(asks('x', { error: 'context_length_exceeded' })),
      /\nStart a new conversation with \/new\.\r\n/,
    );
    // Only the response has the escaped letter.
    terminal.type(`Say it. scripted:{"text":"\\u0073tart${' word'.repeat(200)} end","tokenMs":50}\r`);
    await until(() => terminal.text().includes('start word'));
    terminal.type('\u0003');
    await until(() => terminal.text().endsWith('>>> \u001b[5G'));
    assert.ok(!terminal.text().endsWith('end\r\n>>> \u001b[5G'));
    await untilIdle(service);
    terminal.type(`${asks('never', { prefillTokens: 9, prefillMs: 1_000_000 })}\r`);
    await until(() => /Reading the prompt: 9 of \d+ tokens/.test(terminal.text()));
    terminal.type('\u0003');
    await until(() => terminal.text().endsWith('\r\u001b[2K\u001b[1G\u001b[0J>>> \u001b[5G'));
    await untilIdle(service);
    terminal.type(`Say it. scripted:{"text":"\\u0071uick${' word'.repeat(20)} end","tokenMs":50}\r`);
    await until(() => terminal.text().includes('quick word'));
    terminal.type('/ne');
    await until(() => terminal.text().endsWith('>>> \u001b[5G/ne'));
    assert.ok(terminal.text().includes(`quick${' word'.repeat(20)} end\r\n`));
    assert.match(await type('w'), /New conversation\./);
    terminal.type('\u0004');
    assert.equal(await terminal.ended, 0);
  });
});

test('a message is one line, several pasted lines, or lines between quotation marks', async () => {
  const input = new PassThrough();
  const reader = new MessageReader(input, new PassThrough().resume());
  const read = (...written: string[]) => {
    const message = reader.read(NEVER);
    void (async () => {
      for (const text of written) {
        input.write(text);
        // Each text arrives in another turn of the event loop.
        for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
      }
    })();
    return message;
  };
  assert.equal(await read(' one line \r'), 'one line');
  assert.equal(await read('\r'), '');
  assert.equal(await read('first\rsecond\rthird', '\r'), 'first\nsecond\nthird');
  assert.equal(await read('first\rsecond\r', '\r'), 'first\nsecond');
  assert.equal(await read('"""first\r', 'second\r', 'third"""\r'), 'first\nsecond\nthird');
  assert.equal(await read('"""quoted"""\r'), 'quoted');
  assert.equal(await read('"""first\r', '\u0003', 'other\r'), 'other');
  assert.equal(await read('unsent\u0003', 'sent\r'), 'sent');
  // The key `up`.
  assert.equal(await read('\u001b[A\u001b[A', '\r'), 'other');
  assert.equal(await read('\u0004'), null);
  const stop = new AbortController();
  const aborted = reader.read(stop.signal);
  stop.abort();
  assert.equal(await aborted, null);
});

test('a model is found without regard to case, and without its owner if that is unique', () => {
  const models = ['a/One', 'b/one', 'a/Two', 'A/two', 'c/three'];
  assert.equal(modelNamed('A/ONE', models), 'a/One');
  assert.equal(modelNamed('one', models), null);
  assert.equal(modelNamed('A/two', models), 'A/two');
  assert.equal(modelNamed('Three', models), 'c/three');
  assert.equal(modelNamed('four', models), null);
});

test('control characters of a response do not reach the terminal', () => {
  assert.equal(printable('a\u001b]0;title\u0007b\r\n\tc\u009b2J\u007f'), 'a]0;titleb\n\tc2J');
});

test('the progress of a long prompt is shown until the response begins', async () => {
  const written: string[] = [];
  let prompt: ServerResponse | undefined;
  const receipts = '{"data":[{"prefill":{"prompt_tokens":8600,"done_tokens":3200,"left_ms":39500}}]}';
  const server = createServer((request, response) => {
    if (request.method === 'POST') prompt = response.writeHead(200);
    else response.end(receipts);
  }).listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = new ChatClient(url, () => Promise.resolve('key'));
    const screen = terminal(written);
    const output = new PassThrough().on('data', (text: Buffer) => written.push(text.toString()));
    const conversation = new Conversation({
      client,
      model: 'm',
      system: null,
      output,
      notes: output,
      terminal: screen,
      verbose: false,
      reasoning: true,
    });
    const answered = conversation.send('Hi', NEVER);
    await until(() => written.length > 0);
    prompt?.end('data: {"choices":[{"delta":{"content":"Hello"}}]}\n\ndata: [DONE]\n\n');
    await answered;
    assert.deepEqual(written, [
      '\r\u001b[2KReading the prompt: 3,200 of 8,600 tokens, about 40 s left',
      '\r\u001b[2K',
      'Hello',
      '\n',
    ]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a response that ends early, is no event stream or has an error is a failure', async () => {
  let respond: (response: ServerResponse) => void = () => {};
  const server = createServer((_, response) => respond(response)).listen(0, '127.0.0.1');
  try {
    await new Promise((resolve) => server.once('listening', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = new ChatClient(url, () => Promise.resolve('key'));
    const failure = async (body: string, status = 200) => {
      respond = (response) => response.writeHead(status).end(body);
      return await Array.fromAsync(client.chat('m', [], 'id', NEVER)).then(
        () => 'none',
        (error: Error) => error.message,
      );
    };
    assert.equal(await failure('data: {"choices":[]}\n\n'), 'The response ended early.');
    assert.equal(
      await failure('data: <html>\n\n'),
      'The connection was lost before the end of the response.',
    );
    assert.equal(await failure('data: {"error":{"message":"No.","code":null}}\n\n'), 'No.');
    for (const text of ['<html>', 'null', '{"error":"No."}', '{"error":{"message":5}}'])
      assert.equal(await failure(text, 502), `The server at ${url} responded with status 502.`);
    assert.equal(await failure(JSON.stringify({ error: { message: '\u009b2JNo.\u001b' } }), 400), '2JNo.');
    assert.equal(await failure('data: {"error":"No."}\n\n'), 'The response failed.');
    assert.equal(await failure('data: {"choices":[{"delta":{"content":5}}]}\n\ndata: [DONE]\n\n'), 'none');
    assert.equal(await failure('data: [DONE]\n\n'), 'none');
    respond = (response) =>
      response.end('{"data":[{"id":"a\u009b2Jb","architecture":{"modality":"text->text"}}]}');
    assert.deepEqual(await client.models(NEVER), ['a2Jb']);
    for (const text of ['<html>', '{}', '{"data":[{"id":"m"}]}', '{"data":[{"id":5,"architecture":{}}]}']) {
      respond = (response) => response.end(text);
      await assert.rejects(client.models(NEVER), {
        message: `The server at ${url} did not respond with a list of models, as Sluice does.`,
      });
    }
    respond = (response) => {
      response.writeHead(200).write('{"data":[');
      setImmediate(() => response.destroy());
    };
    await assert.rejects(client.models(NEVER), {
      message: `The server at ${url} did not respond with a list of models, as Sluice does.`,
    });
    respond = (response) => {
      response.writeHead(200).write('data: {"choices":[]}\n\n');
      setImmediate(() => response.destroy());
    };
    await assert.rejects(Array.fromAsync(client.chat('m', [], 'id', NEVER)), {
      message: 'The connection was lost before the end of the response.',
    });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
