import { stat } from 'node:fs/promises';
import type { ModelConfig } from '../config/schema.ts';
import { modalityOf } from '../core/features.ts';
import { otherModel } from '../engine/other-engines.ts';
import { findModel } from '../models/catalog.ts';
import { readGguf } from '../models/gguf.ts';
import type { ModelStore } from '../models/store.ts';
import type { EmbeddedEntry, ModelEntry } from './model-entry.ts';

/** Details of a model that every caller may see, in addition to its state. */
export interface ModelOrigin {
  /** Where it is defined. Models of the configuration file cannot be changed at run time. */
  origin: 'file' | 'added';
  embedded: boolean;
  /** Whether its definition cannot be used, so that it can only be removed. Its prices are unknown. */
  invalid: boolean;
  /** From the configuration or the catalog, so that it is known before the model is ready; null: unknown. */
  modality: string | null;
}

/** Details of a model for operators, in addition to its state. */
export interface ModelDetails {
  /** `engine.file`, the program, or the ID in the catalog; null for models on other servers. */
  source: string | null;
  /** Other names in the configuration. */
  aliases: readonly string[];
  /** The configured context length; null: not configured. */
  contextTokens: number | null;
  /** Size of its files, downloaded or not; null: unknown, or on other servers. */
  sizeBytes: number | null;
  /** Whether it is not unloaded for other models; null: on other servers. */
  keep: boolean | null;
  /** Whether its files are on this machine; null for models without files. */
  downloaded: boolean | null;
  /** From the catalog or its file; null: unknown. */
  license: string | null;
  /** Memory of its engine; null: not loaded, or on other servers. */
  memoryBytes: number | null;
  /** Whether its downloaded files are deleted when it is removed. */
  deletesFile: boolean;
}

/** Returns the modality of a model that is not ready. */
export function knownModality(config: ModelConfig): string | null {
  if (config.modality !== undefined) return config.modality;
  const listed = (config.replicas ?? config.command) ? undefined : findModel(sourceOf(config));
  return listed?.embedding ? modalityOf(listed.embedding) : null;
}

/** Returns the source of the file of an embedded model: `engine.file`, or its ID in the catalog. Without a file: the program. */
export function sourceOf({ id, engine, command }: ModelConfig): string {
  return command?.run[0] ?? engine?.file ?? id;
}

interface FileDetails {
  sizeBytes: number;
  license: string | null;
}

/** Reads the details of models. Metadata of files is read once. */
export class ModelDetailsReader {
  readonly #store: ModelStore;
  readonly #known = new WeakMap<
    ModelEntry,
    { source: string; path: string; mtimeMs: number; details: FileDetails }
  >();

  constructor(store: ModelStore) {
    this.#store = store;
  }

  /** Returns the details of a model. `deletesFile`: whether removing the model deletes a file in the models folder. */
  async read(entry: ModelEntry, aliases: readonly string[], deletesFile: boolean): Promise<ModelDetails> {
    const { config } = entry;
    const embedded = entry.kind === 'embedded' ? entry : null;
    const source = sourceOf(config);
    const hasFile =
      embedded !== null && config.command === undefined && otherModel(config.engine ?? {}) === null;
    const file = hasFile ? await this.#file(embedded, source) : null;
    const listed = findModel(config.command === undefined ? source : config.id);
    const listedBytes =
      listed && config.command === undefined ? (listed.sizeBytes ?? Math.round(listed.sizeGb * 1e9)) : null;
    return {
      source: embedded && source,
      aliases,
      contextTokens: config.engine?.contextTokens ?? config.contextTokens ?? null,
      sizeBytes: embedded && (file?.sizeBytes ?? listedBytes),
      keep: embedded?.keep ?? null,
      downloaded: hasFile ? file !== null : null,
      license: listed?.license ?? file?.license ?? null,
      memoryBytes: embedded?.replica.report().health?.memoryBytes ?? null,
      deletesFile,
    };
  }

  /** Returns null if the file is not downloaded, is missing or is not a model. */
  async #file(entry: EmbeddedEntry, source: string): Promise<FileDetails | null> {
    const known = this.#known.get(entry);
    if (known?.source === source && known.mtimeMs === (await modifiedAt(known.path))) return known.details;
    const local = await this.#store.find(source).catch(() => null);
    const mtimeMs = local && (await modifiedAt(local.file));
    if (local === null || mtimeMs === null) return null;
    const info = await readGguf(local.file).catch(() => null);
    const details = { sizeBytes: local.sizeBytes, license: info?.license ?? null };
    this.#known.set(entry, { source, path: local.file, mtimeMs, details });
    return details;
  }
}

async function modifiedAt(path: string): Promise<number | null> {
  return await stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => null,
  );
}
