import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { LlamaEngine } from '../../src/engine/llama/engine.ts';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { serveEngine, type EngineServer } from '../../src/engine/server.ts';
import { ServiceError } from '../../src/core/errors.ts';
import type { GenerationRequest } from '../../src/core/generation.ts';
import { promptTokenBounds } from '../../src/core/prompt-bound.ts';
import { SILENT } from '../../src/support/log.ts';
import { REPLICA } from '../replicas/replicas.ts';
import { collect, NEVER_ABORTED } from '../engine/requests.ts';
import { temporaryFolder } from '../harness.ts';
import { PROMPT_CHATS, PROMPT_TEXTS } from '../prompts.ts';
import { chat, copyModel, ENDLESS, loadEngine, MODELS, SKIP, text, until } from './embedded-engine.ts';

/** Longer than the pieces in which texts are tokenized. */
const LONG = 'One word after another, '.repeat(400);

/** Renders the variables, so that they change the number of tokens. */
const TEMPLATE = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') + '<|im_end|>\n' }}{% endfor %}{% if enable_thinking %}{{ '<think>' + (custom or '') }}{% else %}no{% endif %}`;

/** A served engine with its client. */
interface Served extends AsyncDisposable {
  engine: LlamaEngine;
  client: HttpReplicaClient;
}

/** Serves a model with two slots of 4,096 tokens. */
async function serve(file: string): Promise<Served> {
  const engine = await loadEngine({ file, slots: 2, contextTokens: 4096 });
  const server: EngineServer = await serveEngine(
    engine,
    { host: '127.0.0.1', port: 0 },
    { maxChoices: 4, modelId: 'test/model', log: SILENT },
  );
  const client = new HttpReplicaClient({ ...REPLICA, url: server.address });
  return {
    engine,
    client,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await server.close();
      await engine[Symbol.asyncDispose]();
    },
  };
}

/**
 * Returns the prompt tokens that a generation reports when it starts, and stops it then. The common start of prompts, such
 * as the tools, is computed once.
 */
async function promptTokensOf({ client }: Served, request: GenerationRequest): Promise<number> {
  for await (const event of client.generate({ ...request, cacheScope: 'test' }, NEVER_ABORTED)) {
    assert(event.type === 'started' && event.promptTokens !== null);
    return event.promptTokens;
  }
  throw new Error('the generation did not start');
}

/** Asserts that the counts of the requests are those of generations, and not above the upper bound. */
async function assertExact(served: Served, requests: readonly GenerationRequest[]): Promise<number[]> {
  const counts: number[] = [];
  for (const request of requests) {
    const count = await served.client.countPromptTokens(request, NEVER_ABORTED);
    assert.equal(count, await promptTokensOf(served, request), JSON.stringify(request).slice(0, 500));
    assert.ok(count <= promptTokenBounds(request).reduce((sum, bound) => sum + bound, 0));
    counts.push(count);
  }
  return counts;
}

describe('the number of prompt tokens', SKIP, () => {
  let served: Served;

  before(async () => {
    served = await serve(MODELS[0]?.file ?? '');
  });

  after(() => served[Symbol.asyncDispose]());

  test('is that of a generation, for any chat', async () => {
    // Each text once, in one of the three shapes of a chat.
    const counts = await assertExact(
      served,
      PROMPT_CHATS.filter((_, index) => (index % 10) % 3 === Math.floor(index / 10)),
    );
    assert.equal(counts.length, 10);
    await assertExact(served, [chat(LONG)]);
  });

  test('is that of the usage at the end', async () => {
    const request = chat('Hi', { maxTokens: 1 });
    const end = (await collect(served.client.generate(request, NEVER_ABORTED))).at(-1);
    assert(end?.type === 'end');
    assert.equal(end.usage.promptTokens, await served.client.countPromptTokens(request, NEVER_ABORTED));
  });

  test('is counted while all slots are in use, and changes nothing in the engine', async () => {
    const { engine, client } = served;
    const running = new AbortController();
    const endless = text('la', { choices: 4, maxTokens: 4000, sampling: ENDLESS });
    const events = client.generate(endless, running.signal);
    await events.next();
    await until(() => engine.health().slotsInUse === 2);
    const { promptTokens, queued } = engine.health();
    const [request = chat('')] = PROMPT_CHATS;
    assert.ok((await client.countPromptTokens(request, NEVER_ABORTED)) !== null);
    const { promptTokens: later, queued: waiting, slotsInUse } = engine.health();
    assert.deepEqual([later, waiting, slotsInUse], [promptTokens, queued, 2]);
    running.abort();
    await until(() => engine.health().slotsInUse === 0);
  });

  test('is not counted further after the client has disconnected', async () => {
    const long = chat(LONG);
    const aborted = new AbortController();
    const reason = new Error('the client disconnected');
    const first = served.engine.countPromptTokens(long, aborted.signal);
    const queued = served.engine.countPromptTokens(long, aborted.signal);
    setImmediate(() => aborted.abort(reason));
    await Promise.all([first, queued].map((count) => assert.rejects(count, reason)));
    assert.ok((await served.engine.countPromptTokens(long, NEVER_ABORTED)) > 0);
  });

  test('is refused like the generation if the prompt does not fit', async () => {
    const refusal = async (request: GenerationRequest) => {
      const refused = async (run: Promise<unknown>) => {
        const error = await run.then(
          () => null,
          (reason: unknown) => reason,
        );
        assert(error instanceof ServiceError && error.status === 400);
        return [error.code, error.message, error.param];
      };
      const counted = await refused(served.client.countPromptTokens(request, NEVER_ABORTED));
      assert.deepEqual(counted, await refused(promptTokensOf(served, request)));
      return counted[0];
    };
    assert.equal(await refusal(chat('One word after another, '.repeat(3000))), 'context_length_exceeded');
    assert.equal(await refusal(text('x'.repeat(100_000))), 'invalid_value');
  });
});

for (const { name, file, options } of MODELS) {
  test(
    `the number of prompt tokens is that of a generation, for any texts, with ${name}`,
    options,
    async () => {
      await using served = await serve(file);
      const requests = PROMPT_TEXTS.map((content) =>
        text(content, { prompts: [content, 'x', ''], choices: 1 }),
      );
      await assertExact(served, requests);
    },
  );
}

test('the number of prompt tokens depends on the variables of the template', SKIP, async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'model.gguf');
  await copyModel(file, TEMPLATE);
  await using served = await serve(file);
  const [plain = 0, thinking = 0, custom = 0, off = 0] = await assertExact(served, [
    chat('Hi'),
    chat('Hi', { reasoningEffort: 'low' }),
    chat('Hi', { templateVariables: { enable_thinking: true, custom: 'More words.' } }),
    chat('Hi', { reasoningEffort: 'none' }),
  ]);
  assert.ok(thinking !== plain && custom > thinking);
  assert.equal(off, plain);
});
