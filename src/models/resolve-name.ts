import { basename } from 'node:path';
import { didYouMean } from '../nearest.ts';
import { CATALOG, findModel } from './catalog.ts';
import type { WantedFile } from './fetch-file.ts';
import { sibling, type Layout } from './layout.ts';
import { PullError } from './pull-error.ts';
import { parseSource, SourceError, type ModelSource } from './source.ts';
import { PROGRAM } from '../program-name.ts';

/** A model by the name it was asked for, and the files it consists of. */
export interface NamedModel {
  name: string;
  /** Its id in the catalogue; null: it is not in it. */
  id: string | null;
  /** Absolute paths, in order. */
  files: readonly string[];
  /** The files to fetch; empty: a local path, used where it lies. */
  wanted: readonly WantedFile[];
}

/**
 * Reads a name as a catalogue id, else as a source.
 * @throws PullError `unknown_model` for what looks like an id, SourceError for anything else that is neither
 */
export function findNamed(name: string, layout: Layout, baseFolder?: string): NamedModel {
  const model = findModel(name);
  if (model !== null) {
    const files = layout.files(model.sources[0]);
    return {
      name,
      id: model.id,
      files,
      wanted: wantedFiles(files, model.sources, model.sha256, model.sizeBytes),
    };
  }
  const source = parse(name, baseFolder);
  const files = layout.files(source);
  const wanted = source.kind === 'path' ? [] : wantedFiles(files, [source], null, null);
  return { name, id: catalogueId(files[0] ?? '', layout), files, wanted };
}

/** The catalogue's id of a file in the models folder; null: not of the catalogue. */
export function catalogueId(file: string, layout: Layout): string | null {
  return CATALOG.find((model) => layout.files(model.sources[0])[0] === file)?.id ?? null;
}

function wantedFiles(
  files: readonly string[],
  sources: readonly ModelSource[],
  sha256: string | null,
  sizeBytes: number | null,
): readonly WantedFile[] {
  const [only] = files;
  if (files.length === 1 && only !== undefined) return [{ file: only, sources, sha256, sizeBytes }];
  return files.map((file) => ({
    file,
    sources: sources.map((source) => sibling(source, basename(file))),
    sha256: null,
    sizeBytes: null,
  }));
}

function parse(name: string, baseFolder?: string): ModelSource {
  try {
    return parseSource(name, baseFolder);
  } catch (error) {
    if (!(error instanceof SourceError) || !/^[\w.-]+\/[\w.:-]+$/.test(name)) throw error;
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
