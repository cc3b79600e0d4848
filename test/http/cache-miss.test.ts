import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ReceiptJson } from '../../src/http/api/receipt-json.ts';
import { MODEL, post, runCli, scriptedYaml, startService, until, type TestService } from '../harness.ts';
import { Management } from '../management.ts';
import { testDatabases } from '../support/servers.ts';

const YAML = scriptedYaml({ contextTokens: 100_000, cacheTokens: 100_000, tokens: 4 }, 'stream: {holdMs: 1}');

/** Returns a text of 400 tokens, which begins with a word. */
function long(word: string): string {
  return word.padEnd(1600, '.');
}

const [RULES, TASK, DONE, NEXT] = ['You are an agent.', 'Do it.', 'It is done.', 'Go on.'].map(long);

/** Returns the body of a conversation, in the form of one API. */
type Body = (conversation: { tool: string; rules: string; task: string; isFollowed: boolean }) => object;

const APIS: readonly { path: string; body: Body }[] = [
  {
    path: '/v1/chat/completions',
    body: ({ tool, rules, task, isFollowed }) => ({
      tools: [{ type: 'function', function: { name: 'read', description: tool } }],
      messages: [
        { role: 'system', content: rules },
        { role: 'user', content: task },
        ...(isFollowed
          ? [
              { role: 'assistant', content: DONE },
              { role: 'user', content: NEXT },
            ]
          : []),
      ],
    }),
  },
  {
    path: '/v1/responses',
    body: ({ tool, rules, task, isFollowed }) => ({
      tools: [{ type: 'function', name: 'read', description: tool, parameters: null, strict: false }],
      instructions: rules,
      input: [
        { role: 'user', content: task },
        ...(isFollowed
          ? [
              { role: 'assistant', content: DONE },
              { role: 'user', content: NEXT },
            ]
          : []),
      ],
    }),
  },
  {
    path: '/v1/messages',
    body: ({ tool, rules, task, isFollowed }) => ({
      max_tokens: 4,
      tools: [{ name: 'read', description: tool, input_schema: { type: 'object' } }],
      system: rules,
      messages: [
        { role: 'user', content: task },
        ...(isFollowed
          ? [
              { role: 'assistant', content: DONE },
              { role: 'user', content: NEXT },
            ]
          : []),
      ],
    }),
  },
];

for (const databases of testDatabases()) {
  describe(`cache misses on ${databases.name}`, () => {
    const owned = new AsyncDisposableStack();
    let service: TestService;
    let manager: Management;

    before(async () => {
      const { home, url } = owned.use(await databases.location());
      const env = { SLUICE_HOME: home, ...(url && { SLUICE_DATABASE_URL: url.reveal() }) };
      service = owned.use(await startService(YAML, env));
      manager = await Management.of(service);
    });
    after(() => owned.disposeAsync());

    /** Sends requests one after the other with a new account, and returns their receipts and the account. */
    async function receiptsOf(
      path: string,
      bodies: readonly object[],
    ): Promise<{ account: string; receipts: ReceiptJson[] }> {
      const { key, accountId: account } = await manager.caller();
      const receipts: ReceiptJson[] = [];
      for (const body of bodies) {
        const response = await post({ ...service, key }, path, { model: MODEL, ...body });
        assert.equal(response.status, 200, await response.text());
        const id = response.headers.get('x-request-id') ?? response.headers.get('request-id');
        receipts.push((await manager.call('GET', `/api/receipts/${id}`)) as ReceiptJson);
      }
      return { account, receipts };
    }

    for (const { path, body } of APIS) {
      test(`the receipt of ${path} names what changed, and the usage has the lost tokens`, async () => {
        const first = { tool: long('Reads.'), rules: `${RULES}`, task: `${TASK}`, isFollowed: true };
        const { receipts } = await receiptsOf(path, [
          body({ ...first, isFollowed: false }),
          body(first),
          body({ ...first, tool: long('Reads a file.') }),
          body({ ...first, rules: long('You are another agent.') }),
          body({ ...first, task: long('Do something else.') }),
        ]);
        assert.deepEqual(
          receipts.map(({ request }) => request.cache_miss),
          [null, null, 'tools', 'system', 'user 1'],
        );
        const lost = receipts.map(({ request }) => request.cache_miss_tokens);
        const expected = [0, 0, 1600, 1200, 800];
        lost.forEach((tokens, index) => {
          const about = expected[index] ?? 0;
          assert.ok(Math.abs(tokens - about) <= 0.1 * about, `${tokens} tokens instead of ${about}`);
        });
        assert.match(
          receipts[2]?.cache_miss ?? '',
          /^The tools differ from those of the request .* before, so 1,[56]\d\d prompt tokens were computed again\.$/,
        );
        assert.ok((receipts[2]?.request.cache_miss_after_ms ?? 0) > 0);
        assert.equal(receipts[1]?.cache_miss, null);
      });
    }

    test('prompts of another account are not compared', async () => {
      const body = { messages: [{ role: 'user', content: TASK }] };
      for (let index = 0; index < 2; index++) {
        const { receipts } = await receiptsOf('/v1/chat/completions', [body]);
        assert.deepEqual(
          receipts.map(({ request }) => [request.cached_tokens, request.cache_miss]),
          [[0, null]],
        );
      }
    });

    test('an equal prompt that the replica no longer had is told', async () => {
      const content = `${TASK}scripted:{"cachedTokens":0}`;
      const body = { messages: [{ role: 'user', content }] };
      const { receipts } = await receiptsOf('/v1/chat/completions', [body, body]);
      const [, receipt] = receipts;
      assert.equal(receipt?.request.cache_miss, 'replica');
      assert.match(
        receipt.cache_miss ?? '',
        /^The request begins like the one .* before, but the replica computed 4\d\d prompt tokens of it again: /,
      );
    });

    test('a prompt whose caller disconnected before it was computed is not missed', async () => {
      const { key } = await manager.caller();
      const send = async (directive: object): Promise<Response> => {
        const content = `scripted:${JSON.stringify({ cachedTokens: 0, ...directive })}`;
        const messages = [TASK, content].map((text) => ({ role: 'user', content: text }));
        return await post({ ...service, key }, '/v1/chat/completions', {
          model: MODEL,
          stream: true,
          messages,
        });
      };
      const receiptOf = async ({ headers }: Response): Promise<ReceiptJson> =>
        (await manager.call('GET', `/api/receipts/${headers.get('x-request-id')}`)) as ReceiptJson;
      const cut = await send({ prefillMs: 600_000 });
      await cut.body?.cancel();
      await until(async () => (await receiptOf(cut)).request.state === 'settled');
      assert.equal((await receiptOf(cut)).request.error_code, 'client_disconnected');
      const whole = await send({});
      await whole.text();
      const { request } = await receiptOf(whole);
      assert.deepEqual([request.cached_tokens, request.cache_miss], [0, null]);
    });

    test('usage by key and the command line have the tokens that were computed again', async () => {
      const [{ body }] = APIS as [(typeof APIS)[number]];
      const first = { tool: long('Reads.'), rules: `${RULES}`, task: `${TASK}`, isFollowed: true };
      const bodies = [body(first), body({ ...first, tool: long('Reads a file.') })];
      const { account, receipts } = await receiptsOf('/v1/chat/completions', bodies);
      const last = receipts.at(-1)?.request;
      assert.ok(last !== undefined && last.cache_miss_tokens > 0);
      const rows = await runCli(['usage', '--by', 'key', '--account', account, '--json'], service.env);
      const [usage] = JSON.parse(rows.stdout) as { key_id: string; cache_miss_tokens: number }[];
      assert.deepEqual([usage?.key_id, usage?.cache_miss_tokens], [last.key_id, last.cache_miss_tokens]);
      const table = await runCli(['usage', '--by', 'key', '--account', account], service.env);
      assert.match(table.stdout, /CACHED +MISSED/);
      const receipt = await runCli(['receipt', last.id], service.env);
      assert.match(receipt.stdout, /\nCache miss\n {2}The tools differ from those of the request .* before,/);
    });
  });
}
