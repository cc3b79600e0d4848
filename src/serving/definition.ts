import { hostname } from 'node:os';
import { basename, isAbsolute } from 'node:path';
import { unescape } from 'node:querystring';
import { type ModelConfig } from '../config/schema.ts';
import { modelSchema } from '../config/model.ts';
import { ServiceError } from '../errors.ts';
import { CATALOG, findModel } from '../models/catalog.ts';
import { ModelFileError, PullError } from '../models/errors.ts';
import { parseSource, scriptedOptions, SourceError } from '../models/source.ts';
import type { ModelStore } from '../models/store.ts';

/** A model to add: either `source` or `replicas` is required. */
export interface NewModel {
  /** Default: derived from the source. Required with `replicas`. */
  id?: string | undefined;
  /** The ID of a model in the catalog, or its name without the namespace; `hf:…`, an address, or an absolute path. */
  source?: string | undefined;
  replicas?: readonly NewReplica[] | undefined;
  pricing?: { prompt?: string | undefined; completion?: string | undefined } | undefined;
  contextTokens?: number | undefined;
  slots?: number | undefined;
}

/** As in the configuration. */
export interface NewReplica {
  url: string;
  dialect: string;
  apiKeyEnv?: string | undefined;
  model?: string | undefined;
  maxInFlight?: number | undefined;
}

/** Identifies this instance, for added models whose engine runs only here. Empty with SQLite. */
export function nodeOf(config: { home: string; databaseUrl: unknown }): string {
  return config.databaseUrl === null ? '' : `${hostname()}:${config.home}`;
}

/** Returns the definition of a new model. Rejects with `invalid_value` or `missing_required_parameter`. */
export async function defineModel(model: NewModel, store: ModelStore): Promise<ModelConfig> {
  const { source, replicas, pricing, contextTokens, slots } = model;
  if (source !== undefined && replicas !== undefined) {
    throw new ServiceError('invalid_value', '`replicas` cannot be combined with `source`.', {
      param: 'replicas',
    });
  }
  if (replicas !== undefined) {
    if (slots !== undefined) {
      throw new ServiceError('invalid_value', '`slots` is only for models with a `source`.', {
        param: 'slots',
      });
    }
    return validModel({ id: requiredId(model), replicas, pricing, contextTokens });
  }
  if (source === undefined) {
    throw new ServiceError('missing_required_parameter', '`source` or `replicas` is required.', {
      param: 'source',
    });
  }
  const listed = catalogName(source);
  const name = listed ?? source;
  if (listed === null) await checkSource(source, store);
  const id = model.id ?? listed ?? idOf(model, source);
  return validModel({
    id,
    pricing,
    engine: { ...(id === listed ? {} : { file: name }), contextTokens, slots },
  });
}

/** Returns the catalog ID with this name: `name` itself, or the only ID that ends with it, ignoring case; else null. */
function catalogName(name: string): string | null {
  if (findModel(name)) return name;
  const suffix = `/${name.toLowerCase()}`;
  const found = CATALOG.filter(({ id }) => id.toLowerCase().endsWith(suffix));
  return found.length === 1 ? (found[0]?.id ?? null) : null;
}

/** Validates a definition like an element of `models` in the configuration. Throws `invalid_value`. */
export function validModel(definition: Readonly<Record<string, unknown>>): ModelConfig {
  // Undefined fields count as absent.
  const { data, error } = modelSchema.safeParse(JSON.parse(JSON.stringify(definition)));
  if (data) return data;
  const [issue] = error.issues;
  const param = (issue?.path ?? [])
    .map(String)
    .join('.')
    .replaceAll(/\.(\d+)/g, '[$1]');
  throw new ServiceError('invalid_value', `Invalid value for \`${param}\`: ${issue?.message ?? ''}.`, {
    param,
  });
}

function requiredId({ id }: NewModel): string {
  if (id !== undefined) return id;
  throw new ServiceError('missing_required_parameter', '`id` is required.', { param: 'id' });
}

/** Returns the default ID of the model of a valid source. */
function idOf(model: NewModel, source: string): string {
  if (scriptedOptions(source) !== null) return requiredId(model);
  const parsed = parseSource(source);
  switch (parsed.kind) {
    case 'hub':
      return `${parsed.repository.split('/', 1)[0] ?? ''}/${stem(parsed.file)}`;
    case 'url':
      // Decodes what is valid, unlike `decodeURIComponent`, which throws.
      return `local/${stem(unescape(parsed.url.pathname))}`;
    default:
      return `local/${stem(source)}`;
  }
}

/** Rejects with `invalid_value` if a model cannot be loaded from this source. Does not use the network. */
async function checkSource(source: string, store: ModelStore): Promise<void> {
  if (scriptedOptions(source) !== null) return;
  try {
    // Also checks that a local file exists and is a model.
    await store.resolve(source);
    if (findModel(source)) return;
    const parsed = parseSource(source);
    if (parsed.kind === 'path' && !isAbsolute(source)) throw new SourceError(source, 'an absolute path');
    // A signed query is a secret, and the source is stored in the database and shown to operators.
    if (parsed.kind === 'url' && parsed.url.search !== '') {
      throw new SourceError(parsed.url.origin + parsed.url.pathname, 'an address without a query');
    }
  } catch (error) {
    if (!(error instanceof PullError || error instanceof SourceError || error instanceof ModelFileError))
      throw error;
    throw new ServiceError('invalid_value', error.message, { param: 'source' });
  }
}

/**
 * Returns the name of a file. Removes the extension and the part number, and replaces characters that no ID contains.
 */
function stem(path: string): string {
  const name = basename(path)
    .replace(/\.gguf$/i, '')
    .replace(/-\d{5}-of-\d{5}$/, '');
  return name.replaceAll(/[^A-Za-z0-9._-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '') || 'model';
}
