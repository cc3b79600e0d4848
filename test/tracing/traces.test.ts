import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readTracing } from '../../src/config/load.ts';
import type { ConfigIssue } from '../../src/config/errors.ts';
import { ScriptedEngine } from '../support/scripted-engine/engine.ts';
import { injectFaults } from '../support/scripted-engine/fault-injection.ts';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { serveEngine } from '../../src/engine/server.ts';
import { openLog, SILENT } from '../../src/support/log.ts';
import { ATTRIBUTES, SPANS } from '../../src/tracing/tracer.ts';
import { OtlpExporter, type Span } from '../../src/tracing/otlp.ts';
import { generatedParts, partsOf } from '../docs/generated.ts';
import { ROOT } from '../docs/markdown.ts';
import { MODEL, post, startService, until } from '../harness.ts';
import { attributesOf, startReceiver, type ReceivedSpan } from './receiver.ts';
import { Writable } from 'node:stream';

const CHAT = '/v1/chat/completions';
const PARENT = { trace: '4bf92f3577b34da6a3ce929d0e0e4736', span: '00f067aa0ba902b7' };
const SECRET_PROMPT = 'the-prompt-must-not-be-exported';

/** The `traceparent` headers that the replica received. */
const received: (string | null)[] = [];
const replica = await serveEngine(
  new ScriptedEngine(),
  { host: '127.0.0.1', port: 0 },
  {
    maxChoices: 16,
    modelId: MODEL,
    log: SILENT,
    beforeResponse(request, response) {
      const header = response.req.headers['traceparent'];
      received.push(typeof header === 'string' ? header : null);
      injectFaults(request, response);
    },
  },
);
after(() => replica.close());
const YAML = `models:\n  - id: ${MODEL}\n    replicas: [{url: "${replica.address}", dialect: sluice}]\n`;

/** Sends requests to a service that exports traces, stops it, and returns the spans. */
async function spansOf(
  requests: readonly { directive: Directive; traceparent?: string; model?: string; stream?: boolean }[],
  env: NodeJS.ProcessEnv = {},
) {
  await using receiver = await startReceiver();
  received.length = 0;
  const ids: (string | null)[] = [];
  {
    await using service = await startService(YAML, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, ...env });
    for (const { directive, traceparent, model = MODEL, stream = false } of requests) {
      const content = `${SECRET_PROMPT} ${scripted(directive)}`;
      const body = { model, stream, messages: [{ role: 'user', content }] };
      const response = await post(service, CHAT, body, traceparent === undefined ? {} : { traceparent });
      await response.text();
      ids.push(response.headers.get('x-request-id'));
    }
  }
  const { headers, bodies } = receiver;
  return { spans: receiver.spans(), resource: receiver.resource(), headers, bodies, ids };
}

const isRequest = ({ kind }: ReceivedSpan) => kind === 2;

test('a request has spans for its phases, below the span of its caller, and passes its span to the replica', async () => {
  const traceparent = `00-${PARENT.trace}-${PARENT.span}-01`;
  const { spans, resource, bodies, ids } = await spansOf(
    [{ directive: { tokens: 5, cachedTokens: 2, text: 'secret-completion' }, traceparent, stream: true }],
    { OTEL_SERVICE_NAME: 'gateway', OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=a%20b' },
  );
  const root = spans.find(isRequest) ?? assert.fail('no span of the request');
  assert.equal(root.traceId, PARENT.trace);
  assert.equal(root.parentSpanId, PARENT.span);
  assert.equal(root.name, `chat ${MODEL}`);
  assert.deepEqual(root.status, {});
  const phases = spans.filter((span) => span !== root);
  assert.deepEqual(
    phases.map(({ name }) => name),
    Object.keys(SPANS),
  );
  let at = BigInt(root.startTimeUnixNano);
  for (const phase of phases) {
    assert.deepEqual([phase.traceId, phase.parentSpanId, phase.kind], [PARENT.trace, root.spanId, 1]);
    assert.equal(BigInt(phase.startTimeUnixNano), at);
    at = BigInt(phase.endTimeUnixNano);
    assert.ok(at >= BigInt(phase.startTimeUnixNano));
  }
  assert.equal(at, BigInt(root.endTimeUnixNano));
  assert.equal(new Set(spans.map(({ spanId }) => spanId)).size, 4);
  assert.deepEqual(received, [`00-${PARENT.trace}-${root.spanId}-01`]);

  const { errorType: _, ...expected } = ATTRIBUTES;
  const attributes = attributesOf(root.attributes);
  assert.deepEqual(
    [...attributes.keys()],
    Object.values(expected).map(([name]) => name),
  );
  for (const [name, value] of [
    ['gen_ai.request.model', MODEL],
    ['gen_ai.usage.cache_read.input_tokens', 2],
    ['http.route', CHAT],
    ['http.response.status_code', 200],
    ['sluice.request.id', ids[0]],
    ['sluice.request.stream', true],
    ['gen_ai.response.finish_reasons', { values: [{ stringValue: 'stop' }] }],
  ] as const) {
    assert.deepEqual(attributes.get(name), value, name);
  }
  assert.equal(resource.get('service.name'), 'gateway');
  assert.equal(resource.get('deployment.environment'), 'a b');
  for (const text of [SECRET_PROMPT, 'secret-completion', 'sk-sluice']) {
    assert.ok(!bodies.join('').includes(text), text);
  }
});

test('a request without a valid traceparent begins a trace, and errors are marked', async () => {
  const { spans } = await spansOf([
    { directive: {}, traceparent: 'not-valid' },
    { directive: {}, model: 'test/none' },
    { directive: { error: 'internal_error' } },
  ]);
  const roots = spans.filter(isRequest);
  assert.equal(new Set(roots.map(({ traceId }) => traceId)).size, 3);
  for (const { traceId, parentSpanId } of roots) {
    assert.match(traceId, /^[\da-f]{32}$/);
    assert.equal(parentSpanId, undefined);
  }
  const seen = roots.map(({ attributes, status, name }) => {
    const values = attributesOf(attributes);
    return [name, values.get('error.type'), values.get('http.response.status_code'), status.code];
  });
  assert.deepEqual(seen, [
    [`chat ${MODEL}`, undefined, 200, undefined],
    ['chat', 'model_not_found', 404, undefined],
    [`chat ${MODEL}`, 'internal_error', 500, 2],
  ]);
});

test('a request whose caller does not sample its trace is not exported, and the replica gets the same flag', async () => {
  const traceparent = `00-${PARENT.trace}-${PARENT.span}-00`;
  const { spans } = await spansOf([{ directive: {}, traceparent }]);
  assert.deepEqual(spans, []);
  assert.match(received[0] ?? '', new RegExp(`^00-${PARENT.trace}-[\\da-f]{16}-00$`));
  const all = await spansOf([{ directive: {}, traceparent }], { OTEL_TRACES_SAMPLER: 'always_on' });
  assert.equal(all.spans.length, 4);
});

test('without an endpoint, replicas get no traceparent and the tracer is not loaded', async () => {
  received.length = 0;
  await using service = await startService(YAML);
  const body = { model: MODEL, messages: [{ role: 'user', content: 'Hi' }] };
  const traceparent = `00-${PARENT.trace}-${PARENT.span}-01`;
  await (await post(service, CHAT, body, { traceparent })).text();
  assert.deepEqual(received, [null]);
  const source = join(ROOT, 'src');
  const importers = readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.startsWith('tracing'))
    .flatMap((file) => readFileSync(join(source, file), 'utf8').match(/.*\/tracing\/.*/g) ?? [])
    .filter((line) => !line.startsWith('import type'));
  assert.deepEqual(importers, ["  const { Tracer } = await import('./tracing/tracer.ts');"]);
});

const span = (index: number): Span => ({
  traceId: PARENT.trace,
  spanId: index.toString(16).padStart(16, '0'),
  parentId: null,
  name: 'test',
  kind: 'internal',
  startUs: 1,
  endUs: 2,
  attributes: [],
  failed: false,
});

function tracing(url: string) {
  const issues: ConfigIssue[] = [];
  const config = readTracing(
    { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_HEADERS: 'x-api-key=a%3Db,other=2' },
    issues,
  );
  assert.deepEqual(issues, []);
  return config ?? assert.fail();
}

test('spans that a receiver cannot accept are sent again, with the configured headers, and the failure is logged once', async () => {
  await using receiver = await startReceiver([503, 200, 400]);
  const lines: string[] = [];
  const log = openLog(
    'warn',
    new Writable({
      write(chunk, _encoding, done) {
        lines.push(String(chunk));
        done();
      },
    }),
  );
  {
    await using exporter = new OtlpExporter(tracing(receiver.url), { instance: 'test', env: {}, log });
    // A full batch is sent at once.
    exporter.add(Array.from({ length: 512 }, (_, index) => span(index + 1)));
    await until(() => receiver.headers.length === 1);
    exporter.add([span(513)]);
  }
  assert.deepEqual(
    receiver.spans().map(({ spanId }) => Number.parseInt(spanId, 16)),
    Array.from({ length: 512 }, (_, index) => index + 1),
    'the last batch was refused for good',
  );
  assert.deepEqual([receiver.headers[0]?.['x-api-key'], receiver.headers[0]?.['other']], ['a=b', '2']);
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? '', /"reason":"status 503".*cannot send traces/);
});

test('at most 4096 spans wait for a receiver that does not respond', async () => {
  await using receiver = await startReceiver([503]);
  {
    await using exporter = new OtlpExporter(tracing(receiver.url), {
      instance: 'test',
      env: {},
      log: SILENT,
    });
    exporter.add(Array.from({ length: 512 }, (_, index) => span(index + 1)));
    for (let index = 513; index <= 6000; index++) exporter.add([span(index)]);
    await until(() => receiver.headers.length === 1);
  }
  const { length } = receiver.spans();
  assert.ok(length >= 4096 && length <= 4096 + 512, String(length));
});

test('invalid variables are errors that name the variable, without its value', () => {
  for (const [name, value] of [
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'secret-host:4317'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'secret'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'a=%zz'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'a b=secret'],
    ['OTEL_RESOURCE_ATTRIBUTES', '=secret'],
    ['OTEL_TRACES_SAMPLER', 'sometimes'],
  ] as const) {
    const issues: ConfigIssue[] = [];
    readTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318', [name]: value }, issues);
    assert.deepEqual(
      issues.map(({ path }) => path),
      [name],
      value,
    );
    assert.ok(!issues[0]?.message.includes('secret'));
  }
  for (const arg of ['2', '-1', 'x']) {
    const issues: ConfigIssue[] = [];
    const env = { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: arg };
    readTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318', ...env }, issues);
    assert.deepEqual(
      issues.map(({ path }) => path),
      ['OTEL_TRACES_SAMPLER_ARG'],
    );
  }
  assert.equal(readTracing({}, []), null);
  assert.equal(readTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x', OTEL_SDK_DISABLED: 'true' }, []), null);
});

test('docs/traces.md has the tables of spans and attributes', async () => {
  const expected = (await generatedParts()).get('docs/traces.md') ?? assert.fail();
  const shown = partsOf('docs/traces.md');
  const plain = (text = '') => text.replaceAll(/ +/g, ' ').replaceAll(/-+/g, '-');
  assert.deepEqual([...shown.keys()], [...expected.keys()]);
  for (const [name, text] of expected) assert.equal(plain(shown.get(name)), plain(text));
});
