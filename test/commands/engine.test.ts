import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { engineRequest, GENERATE_PATH } from '../../src/engine/engine-protocol.ts';
import { text } from '../engine/requests.ts';
import { collectOutput, MAIN, until } from '../harness.ts';
import { SERVE_SCRIPTED } from '../support/scripted-engine/options.ts';
import { writeRandomModel } from '../model/random-models.ts';
import { folder } from './program.ts';

describe('sluice engine llama', () => {
  it('serves a model, and computes it on one thread of libuv, with the stack that tokenizers need', async (context) => {
    const file = join(folder(context), 'random.gguf');
    writeRandomModel('mamba', file);
    const args = [
      '--file',
      file,
      '--model',
      'a/b',
      '--slots',
      '1',
      '--context-tokens',
      '256',
      '--threads',
      '1',
      '--conversation-cache-bytes',
      '3000000000',
    ];
    using child = spawn(process.execPath, [MAIN, 'engine', 'llama', ...args], {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { ...process.env, UV_THREADPOOL_SIZE: undefined },
    });
    const [line] = await once(child.stdout, 'data');
    const address = /^a\/b on (http:\S+)\n$/.exec(String(line))?.[1];
    assert(address !== undefined, `it printed ${line}`);
    const response = await fetch(address + GENERATE_PATH, {
      method: 'POST',
      headers: { connection: 'close' },
      body: JSON.stringify(engineRequest(text({}, { prompts: ['x'] }), { model: 'a/b', maxTokens: 3 })),
    });
    assert.equal(response.status, 200);
    assert.match(await response.text(), /"promptTokens":1,/);
    if (process.platform === 'linux') {
      const tasks = `/proc/${child.pid}/task`;
      const names = readdirSync(tasks).map((task) => readFileSync(join(tasks, task, 'comm'), 'utf8').trim());
      assert.deepEqual(
        names.filter((name) => name.startsWith('libuv')),
        ['libuv-worker'],
      );
      const limits = readFileSync(`/proc/${child.pid}/limits`, 'utf8');
      // The system may not allow it.
      if (/^Max stack size +\S+ +unlimited/m.test(limits))
        assert.match(limits, /^Max stack size +67092480 /m);
    }
    child.kill('SIGTERM');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });
});

describe('sluice engine llama that loads a model', { skip: process.platform !== 'linux' }, () => {
  /** Returns the arguments of an engine that waits for the data of its model, which is a pipe. */
  function waiting(context: TestContext): { args: string[]; pipe: string } {
    const pipe = join(folder(context), 'pipe.gguf');
    execFileSync('mkfifo', [pipe]);
    return { args: [MAIN, 'engine', 'llama', '--file', pipe, '--model', 'a/b'], pipe };
  }

  const read = (pid: number | undefined, file: string): string =>
    readFileSync(`/proc/${pid}/${file}`, 'utf8');

  it('ends at once on Ctrl-C', async (context) => {
    const env = { ...process.env, UV_THREADPOOL_SIZE: undefined };
    using child = spawn(process.execPath, waiting(context).args, { stdio: 'ignore', env });
    // It has started itself again, with other variables.
    await until(() => read(child.pid, 'environ').includes('UV_THREADPOOL_SIZE=1'));
    child.kill('SIGINT');
    assert.deepEqual(await once(child, 'exit'), [null, 'SIGINT']);
  });

  /** Before it listens, Node as the first process of a container loses SIGTERM, and in rare moments dies of it. */
  const SAY_WHEN_LISTENING = `process.on('newListener', (event) => {
    if (event === 'SIGTERM') process.nextTick(() => process.stderr.write('Listening.'));
  })`;
  const UNSHARE = ['--pid', '--fork', '--kill-child', '--mount-proc'];
  const skip = spawnSync('unshare', [...UNSHARE, 'true']).status !== 0 && 'needs PID namespaces';
  it('exits on SIGTERM as the first process of a container', { skip }, async (context) => {
    const { args, pipe } = waiting(context);
    const child = spawn('unshare', [...UNSHARE, process.execPath, ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: {
        ...process.env,
        NODE_OPTIONS: `--import "data:text/javascript,${encodeURIComponent(SAY_WHEN_LISTENING)}"`,
      },
    });
    context.after(() => child.kill('SIGKILL'));
    const output = collectOutput(child);
    const exited = once(child, 'exit');
    let hasExited = false;
    void exited.then(() => (hasExited = true));
    await until(() => output.stderr.includes('Listening.'));
    process.kill(Number(read(child.pid, `task/${child.pid}/children`)), 'SIGTERM');
    await until(() => output.stderr.includes('Interrupted.'));
    // It exits when the file is open.
    await until(() => hasExited || hasReader(pipe));
    assert.deepEqual(await exited, [143, null]);
  });
});

/** Opens a pipe for writing, and returns whether a process reads it. */
function hasReader(pipe: string): boolean {
  try {
    closeSync(openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK));
    return true;
  } catch {
    return false;
  }
}

describe('a served engine', () => {
  it('prints its address, requires its key, and exits on SIGTERM', async () => {
    const args = ['--port', '0', '--model', 'a/b', '--api-key-env', 'KEY', '{"tokens":2}'];
    using child = spawn(process.execPath, [SERVE_SCRIPTED, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, KEY: 'k' },
    });
    const [line] = await once(child.stdout, 'data');
    const address = /^a\/b on (http:\S+)\n$/.exec(String(line))?.[1];
    assert(address !== undefined, `it printed ${line}`);
    const complete = (headers: Record<string, string>) =>
      fetch(address + GENERATE_PATH, {
        method: 'POST',
        headers,
        body: JSON.stringify(engineRequest(text({}, { prompts: ['x'] }), { model: 'a/b', maxTokens: null })),
      });
    assert.equal((await complete({})).status, 401);
    const response = await complete({ authorization: 'Bearer k', connection: 'close' });
    assert.equal(response.status, 200);
    assert.match(await response.text(), /"completionTokens":2/);
    child.kill('SIGTERM');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });

  for (const [flags, message] of [
    [['--port', 'x'], /Expected a port/],
    [['--port', '65536'], /Expected a port from 1 to 65535/],
    [['--choices', 'x'], /whole number/],
    [['--api-key-env', 'NO_SUCH_VARIABLE'], /NO_SUCH_VARIABLE/],
    [['--host', '192.0.2.1'], /Cannot listen on 192\.0\.2\.1/],
    [['{"slots":0}'], /slots.*at least 1/],
  ] as const) {
    it(`refuses ${flags.join(' ')} with a message`, async () => {
      using child = spawn(process.execPath, [SERVE_SCRIPTED, '--model', 'a/b', ...flags], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      const output = collectOutput(child);
      const [code] = await once(child, 'close');
      assert.notEqual(code, 0);
      assert.match(output.stderr, message);
      assert.doesNotMatch(output.stderr, /\n\s+at /);
    });
  }
});
