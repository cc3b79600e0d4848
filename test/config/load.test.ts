import assert from 'node:assert/strict';
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { stringify } from 'yaml';
import { Plans } from '../../src/accounts/plans.ts';
import { ConfigError, type ConfigIssue } from '../../src/config/errors.ts';
import { configFields, fieldAt, formatPath } from '../../src/config/issues.ts';
import { loadConfig, loadSecrets } from '../../src/config/load.ts';
import { configSchema, DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { modelSchema, namedReplicas } from '../../src/config/model.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-config-'));
after(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'sluice.yaml');

const load = (content: string | Uint8Array, env: NodeJS.ProcessEnv = {}) => {
  writeFileSync(path, content);
  return loadConfig({ SLUICE_CONFIG: path, ...env });
};

/** Returns the issues of a configuration as `line:column path: message`. */
async function issueTexts(content: string | Uint8Array, env: NodeJS.ProcessEnv = {}): Promise<string[]> {
  return (await issues(content, env)).map(
    ({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`,
  );
}

async function issues(
  content: string | Uint8Array,
  env: NodeJS.ProcessEnv = {},
): Promise<readonly ConfigIssue[]> {
  try {
    await load(content, env);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.issues;
  }
  return [];
}

test('without a file, the defaults apply and the default model is embedded', async () => {
  const config = await loadConfig({ HOME: '/home/ada' });
  assert.deepEqual([config.host, config.port, config.configPath], ['127.0.0.1', 8080, null]);
  assert.equal(config.file.models[0]?.id, DEFAULT_MODEL_ID);
  assert.deepEqual(config.file.models[0]?.engine, { gpuLayers: 'auto' });
  assert.deepEqual(config.file, configSchema.parse({}));
});

test('an empty file, or one with only comments, changes nothing', async () => {
  for (const content of ['', '# nothing\n', '\ufeff', '---\n', 'null\n']) {
    assert.deepEqual((await load(content)).file, configSchema.parse({}), JSON.stringify(content));
  }
});

test('the environment sets host, port and data directory, and empty variables count as unset', async () => {
  const config = await loadConfig({ SLUICE_HOST: '::', SLUICE_PORT: '0', SLUICE_HOME: 'data' });
  assert.deepEqual([config.host, config.port, config.home], ['::', 0, join(process.cwd(), 'data')]);
  const empty = await loadConfig({ SLUICE_HOST: '', SLUICE_PORT: '', SLUICE_CONFIG: '' });
  assert.deepEqual([empty.host, empty.port, empty.configPath], ['127.0.0.1', 8080, null]);
});

test('invalid variables are reported by name, together with the issues of the file', async () => {
  for (const [name, value] of [
    ['SLUICE_PORT', 'http'],
    ['SLUICE_PORT', '65536'],
    ['SLUICE_PORT', '-1'],
    ['SLUICE_PORT', '80.5'],
    ['SLUICE_HOST', 'http://localhost'],
    ['SLUICE_HOST', 'a b'],
  ] as const) {
    const [first, second] = await issues('drain: 3\n', { [name]: value });
    assert.equal(first?.path, name);
    assert.match(first?.message ?? '', new RegExp(`expected .*${JSON.stringify(value)}`));
    assert.equal(second?.path, 'drain');
  }
});

test('a model with neither engine nor replicas is embedded with the defaults', async () => {
  const { file } = await load('models:\n  - id: a/b\n');
  assert.deepEqual(file.models[0]?.engine, { gpuLayers: 'auto' });
  const remote = await load('models:\n  - id: a/b\n    replicas: [{url: "http://x", dialect: vllm}]\n');
  assert.equal(remote.file.models[0]?.engine, undefined);
});

async function fileOf(file: string): Promise<string | undefined> {
  const { file: config } = await load(stringify({ models: [{ id: 'a/b', engine: { file } }] }));
  return config.models[0]?.engine?.file;
}

test('paths of model files are relative to the configuration file; other sources are not changed', async () => {
  assert.equal(await fileOf('models/m.gguf'), join(folder, 'models/m.gguf'));
  assert.equal(await fileOf('/m.gguf'), '/m.gguf');
  for (const source of ['hf:o/r/f.gguf@main', 'https://example.org/m.gguf', 'scripted:{}']) {
    assert.equal(await fileOf(source), source);
  }
});

test('publicUrl has no trailing slash, because paths are appended to it', async () => {
  const { file } = await load('publicUrl: https://llm.example.org/\n');
  assert.equal(file.publicUrl, 'https://llm.example.org');
});

test('publicUrl has no path, because the console does not work under one', async () => {
  for (const url of [
    'https://a.example/llm',
    'https://a.example/v1/',
    'https://a.example?x',
    'https://u:p@a.example',
  ]) {
    const [text = '', ...more] = await issueTexts(`publicUrl: "${url}"\n`);
    assert.match(text, /^1:12 publicUrl: expected only a scheme and a host, such as "https:/, url);
    assert.deepEqual(more, []);
  }
});

test('URLs of other servers have no credentials, which would not be sent', async () => {
  const url = 'http://user:sesame@10.0.0.11:8000';
  for (const file of [
    `models: [{id: a/b, replicas: [{url: "${url}", dialect: vllm}]}]`,
    `alerts: {webhooks: [{name: ops, format: slack, url: "${url}"}]}`,
    `signIn: {providers: [{id: sso, name: SSO, issuer: "${url}", clientId: a, clientSecretEnv: PATH}]}`,
  ]) {
    const [text = '', ...more] = await issueTexts(`${file}\n`);
    assert.match(text, /(?:url|issuer): expected a URL without a user name and password/, file);
    assert.doesNotMatch(text, /sesame/);
    assert.deepEqual(more, []);
  }
});

test('names of built-in properties are not names of plans or variables', async () => {
  for (const name of ['constructor', 'toString', '__proto__']) {
    const [text = ''] = await issueTexts(`defaultPlan: ${name}\n`);
    assert.match(text, /^1:14 defaultPlan: expected the name of a plan in `plans`/, name);
  }
  const { file } = await load('plans: {constructor: {tokensPerDay: 5}}\ndefaultPlan: constructor\n');
  assert.equal(new Plans(file).of(null)?.limits.tokensPerDay, 5);
  const replica = '{url: "http://127.0.0.1:9", dialect: vllm, apiKeyEnv: constructor}';
  const [text = ''] = await issueTexts(`models: [{id: a/b, replicas: [${replica}]}]\n`);
  assert.match(text, /apiKeyEnv: the environment variable .* is not set/);
});

test('invalid names in mappings are reported with the names that are accepted', async () => {
  assert.deepEqual(await issueTexts('plans: {standard: {}, a b: {}}\n'), [
    '1:23 plans.a b: expected a plan name of lowercase letters, digits, "_" and "-", got "a b"',
  ]);
  const id = 'expected <namespace>/<model_name>, of letters, digits, ".", "_", "-" and ":"';
  assert.deepEqual(await issueTexts('plans: {standard: {models: {small: {tokensPerDay: 5}}}}\n'), [
    `1:29 plans.standard.models.small: ${id}, got "small"`,
  ]);
});

test('`__proto__` is refused as a name anywhere', async () => {
  const replica = '{url: "http://127.0.0.1:9", dialect: vllm, headers: {__proto__: x}}';
  for (const [content, column] of [
    ['plans: {standard: {}, __proto__: {tokensPerDay: 5}}', 23],
    ['plans: {standard: {models: {__proto__: {tokensPerDay: 5}}}}', 29],
    ['aliases: {"__proto__": a/b}', 11],
    [`models: [{id: a/b, replicas: [${replica}]}]`, 84],
    ['__proto__: 1', 1],
  ] as const) {
    assert.deepEqual(await issueTexts(content), [`1:${column} : \`__proto__\` is not allowed as a name`]);
  }
});

test('all issues are reported together, with positions and accepted values', async () => {
  const content = [
    'publicurl: x', // 1
    'models:', // 2
    '  - id: a', // 3
    '    engine:', // 4
    '      slot: 3', // 5
    '      threads: 0', // 6
    '      gpuLayers: many', // 7
    '    slots: 4', // 8
    '  - engine: {}', // 9
    'queue:', // 10
    'logLevel: loud', // 11
    'limits: {choices: "3", foo: 1}', // 12
    'trustedProxies: [10.0.0.0/33, "::1/128"]', // 13
  ].join('\n');
  assert.deepEqual(await issueTexts(content), [
    '1:1 publicurl: unknown field; did you mean publicUrl?',
    '3:9 models[0].id: expected <namespace>/<model_name>, of letters, digits, ".", "_", "-" and ":", got "a"',
    '5:7 models[0].engine.slot: unknown field; did you mean slots?',
    '6:16 models[0].engine.threads: expected a whole number from 1 to 256, got 0',
    '7:18 models[0].engine.gpuLayers: expected a whole number from 0 to 10000 or "auto", got "many"',
    '8:5 models[0].slots: unknown field; set models[].engine.slots instead',
    '9:5 models[1].id: missing; expected text of at most 200 characters',
    '10:7 queue: expected a mapping, got null (remove the field, or give it a value)',
    '11:11 logLevel: expected one of "fatal", "error", "warn", "info", "debug", "silent", got "loud"',
    '12:19 limits.choices: expected a whole number from 1 to 128, got "3"',
    '12:24 limits.foo: unknown field; known fields: bodyBytes, bodyBytesInMemory, headerBytes, drainBytes, bodyMs, idleConnectionMs, choices, connections, reservedShare, whenStoreUnavailable',
    '13:18 trustedProxies[0]: expected an IP address or a CIDR block, such as "10.0.0.0/8", got "10.0.0.0/33"',
  ]);
});

test('a field for a setting that exists only as an environment variable is reported with the variable', async () => {
  assert.deepEqual(await issueTexts('port: 80\nHOST: x\ndata_dir: /data\ndatabase: x\nredis-url: x\n'), [
    '1:1 port: unknown field; set the environment variable SLUICE_PORT instead',
    '2:1 HOST: unknown field; set the environment variable SLUICE_HOST instead',
    '3:1 data_dir: unknown field; set the environment variable SLUICE_HOME instead',
    '4:1 database: unknown field; set the environment variable SLUICE_DATABASE_URL instead',
    '5:1 redis-url: unknown field; set the environment variable SLUICE_VALKEY_URL instead',
  ]);
});

test('the error lists the issues by line below the path of the file', async () => {
  writeFileSync(path, 'drainMs: -1\nqueues: {}\n');
  await assert.rejects(loadConfig({ SLUICE_CONFIG: path, SLUICE_PORT: 'x' }), (error) => {
    assert.ok(error instanceof ConfigError);
    assert.equal(
      error.message,
      [
        `The configuration ${path} is invalid:`,
        '  SLUICE_PORT: expected a port from 1 to 65535, or 0 for any free port; got "x"',
        '  line 1, column 10: drainMs: expected a whole number from 0 to 86400000, got -1',
        '  line 2, column 1: queues: unknown field; did you mean queue?',
      ].join('\n'),
    );
    return true;
  });
});

test('text that YAML parses as a number needs quotes', async () => {
  assert.deepEqual(await issueTexts('models:\n  - id: a/b\n    pricing: {prompt: 0.15}\n'), [
    '3:23 models[0].pricing.prompt: expected text, got 0.15; put it in quotes',
  ]);
});

test('a price of cached tokens is at most the price of the prompt, and is it by default', async () => {
  const yaml = (pricing: string) => `models:\n  - id: a/b\n    pricing: ${pricing}\n`;
  assert.deepEqual(await issueTexts(yaml('{prompt: "0.15", input_cache_read: "0.150001"}')), [
    '3:49 models[0].pricing.input_cache_read: expected at most `prompt`, the price of other prompt tokens, got "0.150001"',
  ]);
  assert.deepEqual(await issueTexts(yaml('{input_cache_read: "0.1"}')), [
    '3:33 models[0].pricing.input_cache_read: expected at most `prompt`, the price of other prompt tokens, got "0.1"',
  ]);
  for (const pricing of ['{prompt: "0.15", input_cache_read: "0.150"}', '{input_cache_read: "0"}']) {
    assert.deepEqual(await issueTexts(yaml(pricing)), []);
  }
});

test('a model with both engine and replicas is reported at `replicas`, and a repeated model ID where it is repeated', async () => {
  const replicas = '[{url: "http://x", dialect: vllm}]';
  assert.deepEqual(await issueTexts(`models:\n  - id: a/b\n    engine: {}\n    replicas: ${replicas}\n`), [
    `4:15 models[0].replicas: expected either \`engine\` or \`replicas\`, not both, got a list of 1`,
  ]);
  assert.deepEqual(await issueTexts('models:\n  - id: a/b\n  - id: c/d\n  - id: a/b\n'), [
    '4:9 models[2].id: expected a unique model ID, got "a/b"',
  ]);
});

test('images are for models on other servers', async () => {
  const replicas = '[{url: "http://x", dialect: vllm}, {url: "http://y", dialect: sluice}]';
  const mixed = await issueTexts(`models:\n  - id: a/b\n    images: {}\n    replicas: ${replicas}\n`);
  assert.match(
    mixed[0] ?? '',
    /models\[0\]\.images: expected no value unless all `replicas` are other servers/,
  );
  assert.deepEqual(await issueTexts('models:\n  - id: a/b\n    images: {urls: true}\n'), [
    "3:13 models[0].images: expected no value unless all `replicas` are other servers: Sluice's engine takes only text, got a mapping",
  ]);
});

test('two replicas of a model cannot have the same name, even if one has it by default', async () => {
  const replicas = '[{url: "http://x", dialect: vllm, name: "a/b#1"}, {url: "http://y", dialect: vllm}]';
  assert.deepEqual(await issueTexts(`models:\n  - id: a/b\n    replicas: ${replicas}\n`), [
    '3:15 models[0].replicas: expected replicas with different names, got a list of 2',
  ]);
});

test('the default name of a replica is valid for the longest model ID', () => {
  const id = `a/${'b'.repeat(198)}`;
  const model = modelSchema.parse({ id, replicas: [{ url: 'http://x', dialect: 'vllm' }] });
  const [replica] = namedReplicas(model);
  assert.equal(replica?.name, `${id}#0`);
  assert.deepEqual(namedReplicas(modelSchema.parse({ id, replicas: [replica] })), [replica]);
});

test('a file that is not a mapping is refused', async () => {
  assert.deepEqual(await issueTexts('- a\n'), ['1:1 : expected a mapping, got a list of 1']);
  assert.deepEqual(await issueTexts('hello\n'), ['1:1 : expected a mapping, got "hello"']);
});

test('YAML syntax errors are reported with their line, without other issues', async () => {
  const cases: [string, string][] = [
    ['drainMs: 1\nlogLevel: info\ndrainMs: 2\n', '3:1 : duplicate key'],
    ['queue: [1,\n', '2:1 : Flow sequence'],
    ['queue: *nothing\n', '1:8 : there is no anchor &nothing before this alias'],
    ['logLevel: !level info\n', '1:11 : Unresolved tag: !level'],
    ['drainMs: 1\n---\ndrainMs: 2\n', '2:1 : the file must contain only one YAML document'],
    ['\tdrainMs: 1\n', '1:1 : Tabs are not allowed'],
    ['? [a]\n: 1\n', '1:3 : keys must be strings'],
  ];
  for (const [content, expected] of cases) {
    const [first = ''] = await issueTexts(content);
    assert.ok(first.startsWith(expected), `${JSON.stringify(content)}: ${first}`);
  }
});

test('anchors are supported, and exponentially nested aliases are refused', async () => {
  const { file } = await load('stream:\n  holdMs: &ms 5000\n  stallMs: *ms\n');
  assert.equal(file.stream.stallMs, 5000);
  const lines = ['a: &a [x, x, x, x, x, x, x, x, x, x]'];
  for (const [before, name] of ['ab', 'bc', 'cd', 'de', 'ef', 'fg', 'gh', 'hi'].map((pair) =>
    pair.split(''),
  )) {
    lines.push(`${name}: &${name} [${Array(10).fill(`*${before}`).join(', ')}]`);
  }
  assert.deepEqual(await issueTexts(lines.join('\n')), [
    'null:null : aliases expand to more than 100 values',
  ]);
});

test('a file is never read while it is partly written', async () => {
  const shorter = 'drainMs: 11\n';
  const longer = 'drainMs: 22\nqueue: {maxRequests: 7}\n';
  writeFileSync(path, shorter);
  let next = longer;
  const writer = setInterval(() => {
    const file = openSync(path, 'r+');
    writeSync(file, next, 0);
    ftruncateSync(file, next.length);
    closeSync(file);
    next = next === longer ? shorter : longer;
  }, 1);
  try {
    // Without a check, one in twenty rounds would fail.
    for (let round = 0; round < 500; round++) {
      const config = await loadConfig({ SLUICE_CONFIG: path }).catch((error: unknown) => {
        // On a busy machine, the file may change during every read.
        assert.match(String(error), /it kept changing/);
        return null;
      });
      // A `drainMs` of 22 without the `queue` would be a partly written file.
      if (config !== null) assert.ok(config.file.drainMs === 11 || config.file.queue.maxRequests === 7);
    }
  } finally {
    clearInterval(writer);
  }
  const { drainMs } = (await loadConfig({ SLUICE_CONFIG: path })).file;
  assert.ok([11, 22].includes(drainMs));
});

test('a file that is not UTF-8, too large, a directory or missing is refused', async () => {
  assert.deepEqual(await issueTexts(new Uint8Array([0x61, 0x3a, 0x20, 0xff])), [
    'null:null : the file is not valid UTF-8',
  ]);
  assert.deepEqual(await issueTexts(Buffer.from('\ufeffdrainMs: 1', 'utf16le')), [
    'null:null : the file is not valid UTF-8',
  ]);
  writeFileSync(path, '');
  truncateSync(path, 2_000_000);
  const large = join(folder, 'large.yaml');
  writeFileSync(large, '');
  truncateSync(large, 1_048_577);
  mkdirSync(join(folder, 'd'));
  for (const [name, words] of [
    ['large.yaml', /at most 1048576 bytes.* has 1048577 bytes$/],
    ['d', /^The configuration .*\/d is invalid:\n {2}expected a readable file; it is a directory$/],
    ['none.yaml', /none\.yaml is invalid:\n {2}expected a readable file; the file does not exist$/],
    ['large.yaml/x', /x is invalid:\n {2}expected a readable file; part of the path is a file$/],
  ] as const) {
    const file = join(folder, name);
    await assert.rejects(loadConfig({ SLUICE_CONFIG: file }), (error) => {
      assert.ok(error instanceof ConfigError);
      assert.equal(error.issues[0]?.path, '');
      assert.match(error.message, words);
      return true;
    });
  }
});

const REPLICA = (name: string) =>
  `models:\n  - id: a/b\n    replicas:\n      - url: http://x\n        dialect: vllm\n        apiKeyEnv: ${name}\n`;

test('variables named by apiKeyEnv must be set, and are loaded as secrets', async () => {
  assert.deepEqual(await issueTexts(REPLICA('VLLM_KEY')), [
    '6:20 models[0].replicas[0].apiKeyEnv: the environment variable VLLM_KEY is not set',
  ]);
  assert.equal((await issues(REPLICA('VLLM_KEY'), { VLLM_KEY: '' })).length, 1);
  const env = { VLLM_KEY: 'hunter2' };
  const config = await load(REPLICA('VLLM_KEY'), env);
  const secrets = loadSecrets(config, env);
  assert.equal(secrets.get('VLLM_KEY')?.reveal(), 'hunter2');
  assert.equal(JSON.stringify([config, ...secrets]).includes('hunter2'), false);
  assert.equal(loadSecrets(await loadConfig({}), env).size, 0);
});

const WITH_HEADERS = (fields: string) =>
  `models:\n  - id: a/b\n    replicas:\n      - {url: http://x, dialect: vllm, ${fields}}\n`;

test('replicas may have additional headers, with secret values in environment variables', async () => {
  const env = { GATEWAY_KEY: 'hunter5' };
  const config = await load(WITH_HEADERS('headers: {X-A: "b c"}, headersEnv: {X-Key: GATEWAY_KEY}'), env);
  const [replica] = config.file.models[0]?.replicas ?? [];
  assert.deepEqual([replica?.headers, replica?.headersEnv], [{ 'X-A': 'b c' }, { 'X-Key': 'GATEWAY_KEY' }]);
  assert.equal(loadSecrets(config, env).get('GATEWAY_KEY')?.reveal(), 'hunter5');
  assert.deepEqual(await issueTexts(WITH_HEADERS('headersEnv: {X-Key: GATEWAY_KEY}')), [
    '4:60 models[0].replicas[0].headersEnv.X-Key: the environment variable GATEWAY_KEY is not set',
  ]);
});

test('headers that Sluice sets, repeated headers, and values that cannot be sent are refused without the value', async () => {
  const many = Array.from({ length: 17 }, (_, index) => `X-${index}: v4lue`).join(', ');
  for (const [fields, path, text] of [
    ['headers: {Host: v4lue}', 'headers.Host', 'another header'],
    ['headers: {Transfer-Encoding: v4lue}', 'headers.Transfer-Encoding', 'another header'],
    ['headersEnv: {content-length: KEY}', 'headersEnv.content-length', 'another header'],
    ['apiKeyEnv: KEY, headers: {authorization: v4lue}', 'headers.authorization', 'apiKeyEnv'],
    ['headers: {X-A: v4lue}, headersEnv: {x-a: KEY}', 'headersEnv.x-a', 'only once'],
    ['headers: {"X A": v4lue}', 'headers.X A', 'a header name'],
    [`headers: {${'x'.repeat(65)}: v4lue}`, `headers.${'x'.repeat(65)}`, 'a header name'],
    [`headers: {${many}}`, 'headers.X-16', 'at most 16 headers'],
    ['headers: {X-A: ""}', 'headers.X-A', 'printable ASCII'],
    ['headers: {X-A: "v4lue\\r\\nX-B: c"}', 'headers.X-A', 'printable ASCII'],
    ['headers: {X-A: " v4lue"}', 'headers.X-A', 'without spaces'],
    [`headers: {X-A: ${'v4lue'.repeat(1000)}}`, 'headers.X-A', '1 to 4096'],
    ['headers: {X-A: [v4lue]}', 'headers.X-A', 'printable ASCII'],
    ['headersEnv: {X-A: v4lue-5}', 'headersEnv.X-A', 'the name of an environment variable'],
    ['headersEnv: {X-A: BROKEN}', 'headersEnv.X-A', 'cannot be sent in a header'],
    ['apiKeyEnv: BROKEN', 'apiKeyEnv', 'cannot be sent in a header'],
  ] as const) {
    const found = await issues(WITH_HEADERS(fields), { KEY: 'v4lue', BROKEN: 'v4lue\n' });
    assert.deepEqual(
      found.map((issue) => issue.path),
      [`models[0].replicas[0].${path}`],
      fields,
    );
    assert.match(found[0]?.message ?? '', new RegExp(text), fields);
    assert.doesNotMatch(JSON.stringify(found), /v4lue/, fields);
  }
  const own = await load(WITH_HEADERS('headers: {Authorization: Basic eDp5}'));
  assert.equal(own.file.models[0]?.replicas?.[0]?.headers?.['Authorization'], 'Basic eDp5');
});

test('reasoningField is only for the dialect openai', async () => {
  const of = (dialect: string) =>
    `models: [{id: a/b, replicas: [{url: "http://x", dialect: ${dialect}, reasoningField: reasoning}]}]`;
  assert.equal((await load(of('openai'))).file.models[0]?.replicas?.[0]?.reasoningField, 'reasoning');
  assert.deepEqual(
    (await issues(of('vllm'))).map(({ path, message }) => [path, message]),
    [
      [
        'models[0].replicas[0].reasoningField',
        'expected no value unless `dialect` is `openai`, got "reasoning"',
      ],
    ],
  );
});

const MAIL = 'smtp: {host: mail.example.org, from: "Sluice <sluice@example.org>"';

test('smtp requires `host` and `from`, and accepts `user` and `passwordEnv` only together', async () => {
  assert.deepEqual((await load(`${MAIL}}\n`)).file.smtp, {
    host: 'mail.example.org',
    port: 587,
    secure: false,
    from: 'Sluice <sluice@example.org>',
  });
  for (const [content, path] of [
    [`smtp: {host: x}\n`, 'smtp.from'],
    [`smtp: {host: x, from: "zoe@example.org\\r\\nBcc: all@example.org"}\n`, 'smtp.from'],
    [`${MAIL}, port: 65536}\n`, 'smtp.port'],
    [`${MAIL}, secure: 1}\n`, 'smtp.secure'],
    [`${MAIL}, user: x}\n`, 'smtp.passwordEnv'],
    [`${MAIL}, passwordEnv: MAIL_PASSWORD}\n`, 'smtp.passwordEnv'],
    [`${MAIL}, user: x, passwordEnv: MAIL_PASSWORD}\n`, 'smtp.passwordEnv'],
  ] as const) {
    assert.deepEqual(
      (await issues(content)).map((issue) => issue.path),
      [path],
      content,
    );
  }
  const env = { MAIL_PASSWORD: 'hunter3' };
  const config = await load(`${MAIL}, user: x, passwordEnv: MAIL_PASSWORD}\n`, env);
  assert.equal(loadSecrets(config, env).get('MAIL_PASSWORD')?.reveal(), 'hunter3');
});

const PROVIDER = (fields: string) =>
  `signIn: {providers: [{name: X, clientId: c, clientSecretEnv: C, ${fields}}]}\n`;

test('providers other than Google and GitHub need an issuer, and each has a unique ID', async () => {
  const env = { C: 'hunter4' };
  const google = await load(PROVIDER('id: google'), env);
  assert.equal(google.file.signIn.providers[0]?.id, 'google');
  assert.equal(loadSecrets(google, env).get('C')?.reveal(), 'hunter4');
  for (const [fields, path] of [
    ['id: gogle', 'signIn.providers[0].issuer'],
    ['id: google, issuer: "https://x"', 'signIn.providers[0].issuer'],
    ['id: credential, issuer: "https://x"', 'signIn.providers[0].id'],
    ['id: A b, issuer: "https://x"', 'signIn.providers[0].id'],
    ['id: google}, {id: google, name: Y, clientId: d, clientSecretEnv: C', 'signIn.providers[1].id'],
  ] as const) {
    assert.deepEqual(
      (await issues(PROVIDER(fields), env)).map((issue) => issue.path),
      [path],
      fields,
    );
  }
  assert.deepEqual(await issueTexts(PROVIDER('id: google')), [
    '1:62 signIn.providers[0].clientSecretEnv: the environment variable C is not set',
  ]);
});

test('error messages do not repeat keys or passwords in wrong fields', async () => {
  const secret = 'sk_live_c4n4ry';
  for (const content of [
    REPLICA(secret),
    REPLICA(`"${secret}-x"`),
    `apiKey: ${secret}\n`,
    `publicUrl: ftp://user:${secret}@host\n`,
    `models:\n  - id: a/b\n    replicas: [{url: "ftp://u:${secret}@h", dialect: vllm}]\n`,
  ]) {
    const found = await issueTexts(content);
    assert.notEqual(found.length, 0, content);
    assert.equal(found.join('\n').includes(secret), false, found.join('\n'));
  }
});

test('loading any bytes succeeds or fails with a ConfigError', async () => {
  const words = fc.constantFrom(
    'models',
    'id',
    'engine',
    ':',
    ' ',
    '\n',
    '-',
    '&a',
    '*a',
    '{',
    '}',
    '[',
    ']',
    ',',
    '"',
    '#',
    '|',
    '!!binary',
    '__proto__',
    '<<',
    '1',
    '~',
  );
  const content = fc.oneof(
    fc.array(words, { maxLength: 30 }).map((parts) => parts.join('')),
    fc.uint8Array(),
  );
  await fc.assert(
    fc.asyncProperty(content, async (bytes) => {
      await issues(bytes);
    }),
    { numRuns: 300 },
  );
});

test('an invalid value of any type in any field is reported with its path and line', async () => {
  const leaves = configFields().filter(
    // `metrics.host`, directories and most fields of `smtp` accept any text. Fields of `smtp` and `backup` are not valid alone.
    (field) =>
      !/\[\]|^smtp\.|^metrics\.host$|Cache\.directory$|^backup\.(keep|directory)$|^(models|publicUrl|defaultPlan)$/.test(
        field.path,
      ),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...leaves),
      fc.constantFrom<unknown>(null, -1.5, 'no such word', [[]], Infinity),
      async (field, value) => {
        const path = field.path.replace('plans.*', 'plans.standard').replace('models.*', 'models.a/b');
        const keys = path.split('.');
        const inner = keys.reduceRight<unknown>((below, key) => ({ [key]: below }), value);
        const [first, ...more] = await issues(stringify(inner));
        assert.deepEqual(more, []);
        assert.ok(first?.path.startsWith(path), `${path}: ${first?.path}`);
        assert.ok((first?.line ?? 0) >= 1);
        assert.match(first?.message ?? '', /^expected /);
      },
    ),
  );
});

test('the default plan is one of the plans', async () => {
  const [unknown] = await issues('plans: {free: {}}\ndefaultPlan: fre\n');
  assert.equal(unknown?.path, 'defaultPlan');
  assert.equal(unknown?.line, 2);
  const [unset] = await issues('plans: {free: {}}\n');
  assert.equal(unset?.path, 'defaultPlan');
});

test('server URLs are checked, kept as secrets, and not repeated in errors', async () => {
  const config = await loadConfig({ SLUICE_DATABASE_URL: 'postgres://u:secret-one@db/x' });
  assert.equal(config.databaseUrl?.reveal(), 'postgres://u:secret-one@db/x');
  assert.doesNotMatch(JSON.stringify(config), /secret-one/);
  await assert.rejects(loadConfig({ SLUICE_VALKEY_URL: 'http://u:secret-two@h' }), (error: Error) => {
    assert.match(error.message, /SLUICE_VALKEY_URL: expected a URL such as redis:/);
    assert.doesNotMatch(error.message, /secret-two/);
    return true;
  });
});

test('backups need an interval, and their directory is relative to the configuration file', async () => {
  const [missing] = await issues('backup: {keep: 3}\n');
  assert.equal(missing?.path, 'backup.everyHours');
  const { file, configPath } = await load('backup: {everyHours: 24, directory: copies}\n');
  assert.deepEqual(file.backup, {
    everyHours: 24,
    keep: 7,
    directory: join(dirname(configPath ?? ''), 'copies'),
  });
});

test('the directory for conversations is relative to the configuration file', async () => {
  const { file, configPath } = await load('engine: {conversationCache: {directory: kept}}\n');
  assert.equal(file.engine.conversationCache.directory, join(dirname(configPath ?? ''), 'kept'));
});

test('the key for secrets is checked, and not repeated in errors', async () => {
  const key = 'ab'.repeat(32);
  const config = await loadConfig({ SLUICE_SECRET_KEY: `${key}, ${key}` });
  assert.equal(config.secretKey?.reveal(), `${key}, ${key}`);
  await assert.rejects(loadConfig({ SLUICE_SECRET_KEY: `${key}ab` }), (error: Error) => {
    assert.match(error.message, /SLUICE_SECRET_KEY: expected 64 hexadecimal digits/);
    assert.equal(error.message.includes(key), false);
    return true;
  });
});

test('paths are formatted, and fields are found by their path', () => {
  assert.equal(formatPath(['models', 0, 'engine', 'slots']), 'models[0].engine.slots');
  assert.equal(fieldAt(['models', 3, 'replicas', 1, 'url'])?.required, true);
  assert.equal(fieldAt(['models', 'x']), undefined);
  assert.equal(fieldAt(['plans', 'any', 'models', 'a/b.c', 'burst', 'tokens'])?.required, false);
});

test('the program of a model is checked, and the message names the field', async () => {
  const texts = async (command: object, rest: object = {}) => {
    const model = {
      id: 'acme/x',
      command: { run: ['serve', '{port}'], dialect: 'vllm', ...command },
      ...rest,
    };
    return (await issues(JSON.stringify({ models: [model] }))).map(
      ({ path: at, message }) => `${at}: ${message.replace(/, got .*/, '')}`,
    );
  };
  for (const [command, expected] of [
    [
      { run: ['./serve', '{port}'] },
      'models[0].command.run[0]: expected an absolute path, or the name of a program in `PATH`',
    ],
    [
      { run: ['bin/serve', '{port}'] },
      'models[0].command.run[0]: expected an absolute path, or the name of a program in `PATH`',
    ],
    [
      { run: ['serve', '--port={prot}', '{port}'] },
      'models[0].command.run[1]: expected no placeholders other than `{host}`, `{port}` and `{socket}`',
    ],
    [
      { run: ['serve'] },
      'models[0].command.run: expected either `{port}` or `{socket}` in an argument: where the program listens',
    ],
    [
      { run: ['serve', '{port}', '{socket}'] },
      'models[0].command.run: expected either `{port}` or `{socket}` in an argument: where the program listens',
    ],
    [{ readyPath: 'health' }, 'models[0].command.readyPath: expected a path that begins with `/`'],
    [{ env: { 'A B': '' } }, 'models[0].command.env.A B: expected the name of an environment variable'],
    [
      { reasoningField: 'reasoning' },
      'models[0].command.reasoningField: expected no value unless `dialect` is `openai`',
    ],
  ] as const) {
    assert.deepEqual(await texts(command), [expected]);
  }
  assert.equal((await texts({ dialect: 'sluice' })).length, 1);
  assert.deepEqual(await texts({}, { engine: {} }), [
    'models[0].command: expected no value for a model with `engine` or `replicas`',
  ]);
  const literal = ['serve', '--listen', '{host}:{port}', '{"a": {"b": 1}}', '{{ messages }}{{x}}'];
  assert.deepEqual(await texts({ run: literal }, { keep: true, images: { tokens: 64 } }), []);
});
