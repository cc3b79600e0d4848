import type { Schema } from '../../api/document.ts';
import type { Entry } from '../../api/operations.ts';
import { resolve, type Schemas } from './schema.ts';

/** A configured model and the current account, for examples. */
export interface ExampleContext {
  model: string;
  accountId: string;
}

/** Returns a short valid body for the operation; null: no body. */
export function exampleBody(
  entry: Entry,
  schemas: Schemas,
  context: ExampleContext,
): Readonly<Record<string, unknown>> | null {
  if (entry.body === null) return null;
  if (entry.id === 'createChatCompletion') {
    return {
      model: context.model,
      messages: [{ role: 'user', content: 'What is a sluice?' }],
      max_tokens: 100,
      stream: true,
    };
  }
  if (entry.id === 'createCompletion') {
    return { model: context.model, prompt: 'The capital of France is', max_tokens: 16, temperature: 0 };
  }
  if (entry.id === 'addModel') return { source: 'qwen3-4b' };
  const { properties = {}, required = [] } = resolve(entry.body, schemas);
  // Update operations have only optional fields: show the first one.
  const [first] = Object.keys(properties);
  const shown = new Set([...required, ...('account_id' in properties ? ['account_id'] : [])]);
  if (shown.size === 0 && first !== undefined) shown.add(first);
  return Object.fromEntries(
    Object.entries(properties)
      .filter(([name]) => shown.has(name))
      .map(([name, schema]) => [name, exampleOf(name, resolve(schema, schemas), schemas, context)]),
  );
}

const BY_NAME: Readonly<Record<string, string>> = {
  name: 'my-app',
  email: 'ada@example.com',
  code: '123456',
  password: 'correct horse battery staple',
  new_password: 'correct horse battery staple',
  url: 'http://10.0.0.11:8000',
  ids: 'key_0123456789abcdef01234567',
};

function exampleOf(name: string, schema: Schema, schemas: Schemas, context: ExampleContext): unknown {
  if (name === 'account_id') return context.accountId;
  if (name === 'model') return context.model;
  const [option] = schema.anyOf ?? schema.oneOf ?? [];
  if (option !== undefined) return exampleOf(name, resolve(option, schemas), schemas, context);
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  switch (typeof schema.type === 'string' ? schema.type : schema.type?.[0]) {
    case 'boolean':
      return true;
    case 'integer':
    case 'number':
      return schema.minimum ?? 1;
    case 'array':
      return schema.items === undefined
        ? []
        : [exampleOf(name, resolve(schema.items, schemas), schemas, context)];
    case 'object':
      return Object.fromEntries(
        (schema.required ?? []).map((field) => [
          field,
          exampleOf(field, resolve(schema.properties?.[field] ?? {}, schemas), schemas, context),
        ]),
      );
    default:
      return schema.format === 'date-time' ? '2030-01-01T00:00:00Z' : (BY_NAME[name] ?? '…');
  }
}

/** Fills in path and query parameters. Skips empty ones. */
export function addressOf(entry: Entry, given: Readonly<Record<string, string>>): string {
  const path = entry.path.replaceAll(/\{(\w+)\}/g, (braces, name: string) =>
    given[name] ? encodeURIComponent(given[name]) : braces,
  );
  const query = new URLSearchParams();
  for (const { name, in: place } of entry.parameters) {
    if (place === 'query' && given[name]) query.set(name, given[name]);
  }
  return query.size > 0 ? `${path}?${query}` : path;
}
