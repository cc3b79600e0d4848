import { basename } from 'node:path';
import { didYouMean } from '../nearest.ts';
import { CATALOG, findModel } from './catalog.ts';
import type { DownloadTarget } from './fetch-file.ts';
import { siblingSource, type Layout } from './layout.ts';
import { PullError } from './pull-error.ts';
import { parseSource, SourceError, type ModelSource } from './source.ts';
import { PROGRAM } from '../program-name.ts';

/** The model and the files that a name refers to. */
export interface ResolvedModel {
  name: string;
  /** Its ID in the catalog; null if it is not in the catalog. */
  id: string | null;
  /** Absolute paths, in order. */
  files: readonly string[];
  /** The files to download; empty for a local path. */
  targets: readonly DownloadTarget[];
}

/**
 * Resolves an ID in the catalog, a source or a path.
 * @throws PullError `unknown_model` if the name looks like an ID, otherwise SourceError
 */
export function resolveName(name: string, layout: Layout, baseFolder?: string): ResolvedModel {
  const model = findModel(name);
  if (model !== null) {
    const files = layout.files(model.sources[0]);
    return {
      name,
      id: model.id,
      files,
      targets: createTargets(files, model.sources, model.sha256, model.sizeBytes),
    };
  }
  const source = parseName(name, baseFolder);
  const files = layout.files(source);
  const targets = source.kind === 'path' ? [] : createTargets(files, [source], null, null);
  return { name, id: catalogId(files[0] ?? '', layout), files, targets };
}

/** Returns the catalog ID of a file in the models folder, or null. */
export function catalogId(file: string, layout: Layout): string | null {
  return CATALOG.find((model) => layout.files(model.sources[0])[0] === file)?.id ?? null;
}

function createTargets(
  files: readonly string[],
  sources: readonly ModelSource[],
  sha256: string | null,
  sizeBytes: number | null,
): readonly DownloadTarget[] {
  const [only] = files;
  if (files.length === 1 && only !== undefined) return [{ file: only, sources, sha256, sizeBytes }];
  return files.map((file) => ({
    file,
    sources: sources.map((source) => siblingSource(source, basename(file))),
    sha256: null,
    sizeBytes: null,
  }));
}

function parseName(name: string, baseFolder?: string): ModelSource {
  try {
    return parseSource(name, baseFolder);
  } catch (error) {
    if (!(error instanceof SourceError) || !/^[\w.-]+(\/[\w.:-]+)?$/.test(name)) throw error;
    const near = didYouMean(
      name,
      CATALOG.map(({ id }) => id),
    );
    throw new PullError(
      'unknown_model',
      `The model ${name} is not in the catalog.${near} Choose one that \`${PROGRAM} models list --available\` lists, or give the ` +
        'source of the model: hf:owner/repo/file.gguf, https://host/file.gguf or the path of a .gguf file (in the configuration, as `engine.file`).',
      { cause: error },
    );
  }
}
