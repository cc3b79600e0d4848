import { HEADER_VALUE } from './values.ts';
import { environmentIssue, type ConfigIssue } from './errors.ts';
import { Secret } from '../secret.ts';

/** Destination of traces, from the standard variables of OpenTelemetry. */
export interface TracingConfig {
  /** The endpoint for traces. */
  url: string;
  /** Additional headers, by name. May contain credentials. */
  headers: ReadonlyMap<string, Secret>;
  /** Attributes of this service, by name, such as `service.name`. */
  resource: ReadonlyMap<string, string>;
  /** Whether a request that continues a trace follows its caller's decision to record the trace. */
  parentBased: boolean;
  /** The share of the other requests that are recorded, 0 to 1. */
  ratio: number;
}

/** The samplers of OpenTelemetry's SDKs. If `ratio` is null, it is read from `OTEL_TRACES_SAMPLER_ARG`. */
const SAMPLERS: ReadonlyMap<string, readonly [parentBased: boolean, ratio: number | null]> = new Map([
  ['always_on', [false, 1]],
  ['always_off', [false, 0]],
  ['traceidratio', [false, null]],
  ['parentbased_always_on', [true, 1]],
  ['parentbased_always_off', [true, 0]],
  ['parentbased_traceidratio', [true, null]],
]);

/** Returns null without `OTEL_EXPORTER_OTLP_ENDPOINT`, or with `OTEL_SDK_DISABLED=true`. */
export function readTracing(env: NodeJS.ProcessEnv, issues: ConfigIssue[]): TracingConfig | null {
  const endpoint = env.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (!endpoint || env.OTEL_SDK_DISABLED === 'true') return null;
  return {
    url: readEndpoint(endpoint, issues),
    headers: readHeaders(env.OTEL_EXPORTER_OTLP_HEADERS ?? '', issues),
    resource: new Map([
      ...pairs('OTEL_RESOURCE_ATTRIBUTES', env.OTEL_RESOURCE_ATTRIBUTES ?? '', issues),
      ...(env.OTEL_SERVICE_NAME ? [['service.name', env.OTEL_SERVICE_NAME] as const] : []),
    ]),
    ...readSampler(env, issues),
  };
}

function readEndpoint(text: string, issues: ConfigIssue[]): string {
  const url = URL.parse(text);
  if (url?.protocol === 'http:' || url?.protocol === 'https:') {
    return `${text.replace(/\/+$/, '')}/v1/traces`;
  }
  const expected = 'the http:// or https:// URL of an OTLP/HTTP receiver, such as http://127.0.0.1:4318';
  issues.push(environmentIssue('OTEL_EXPORTER_OTLP_ENDPOINT', expected, 'its value is not such a URL'));
  return '';
}

function readHeaders(text: string, issues: ConfigIssue[]): Map<string, Secret> {
  const name = 'OTEL_EXPORTER_OTLP_HEADERS';
  const headers = pairs(name, text, issues);
  if (headers.some(([header, value]) => !/^[\w-]+$/.test(header) || !HEADER_VALUE.test(value))) {
    issues.push(
      environmentIssue(name, 'headers such as `name=value`', 'a name or value cannot be sent in a header'),
    );
  }
  return new Map(headers.map(([header, value]) => [header.toLowerCase(), new Secret(value)]));
}

function readSampler(
  env: NodeJS.ProcessEnv,
  issues: ConfigIssue[],
): Pick<TracingConfig, 'parentBased' | 'ratio'> {
  const name = env.OTEL_TRACES_SAMPLER || 'parentbased_always_on';
  const sampler = SAMPLERS.get(name);
  if (!sampler) {
    const expected = `one of ${[...SAMPLERS.keys()].join(', ')}`;
    issues.push(environmentIssue('OTEL_TRACES_SAMPLER', expected, `got ${JSON.stringify(name)}`));
  }
  const [parentBased, fixed] = sampler ?? [true, 1];
  const text = env.OTEL_TRACES_SAMPLER_ARG || '1';
  const ratio = fixed ?? Number(text);
  if (!(ratio >= 0 && ratio <= 1)) {
    const found = `got ${JSON.stringify(text)}`;
    issues.push(environmentIssue('OTEL_TRACES_SAMPLER_ARG', 'a number from 0 to 1', found));
  }
  return { parentBased, ratio };
}

/** Reads `name=value,name=value` with percent-encoded values. Issues do not repeat it, because it may be secret. */
function pairs(name: string, text: string, issues: ConfigIssue[]): (readonly [string, string])[] {
  const parts = text.split(',').filter((part) => part.trim() !== '');
  return parts.flatMap((part) => {
    const at = part.indexOf('=');
    const value = decoded(part.slice(at + 1).trim());
    if (at > 0 && value !== null) return [[part.slice(0, at).trim(), value] as const];
    const expected = 'a list such as `name=value,name=value`, with percent-encoded values';
    issues.push(environmentIssue(name, expected, 'one of its entries does not have this form'));
    return [];
  });
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
