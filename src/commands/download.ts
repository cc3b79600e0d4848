import { homeOf, prepareHome } from '../config/home.ts';
import { SILENT } from '../support/log.ts';
import { PullError } from '../models/errors.ts';
import { ModelStore, type LocalModel } from '../models/store.ts';
import { note } from './output.ts';
import { describeProgress, ProgressBar, Terminal } from './progress-bar.ts';

/** Help text: the names that commands accept for a model. */
export const MODEL_NAMES = `
The model is one of:
  a catalog ID              HuggingFaceTB/SmolLM2-135M-Instruct  (see \`models list --available\`)
  a file on the Hub         hf:owner/repo/file.gguf[@revision]
  a URL                     https://host/file.gguf
  a path                    ./file.gguf`;

/** Downloads a model, with a progress bar on standard error. Rejects with a `PullError`. */
export async function download(store: ModelStore, name: string, signal: AbortSignal): Promise<LocalModel> {
  const failed: string[] = [];
  using bar = openBar((line) => failed.push(line));
  return await store.pull(name, { signal, onProgress: bar.update }).catch((error: unknown) => {
    throw withoutPrinted(error, failed);
  });
}

/** Opens the store without reading the configuration file, so that an error in it does not matter. */
export async function openStore(): Promise<ModelStore> {
  const home = homeOf(process.env);
  await prepareHome(home);
  return new ModelStore({ home, log: SILENT, env: process.env });
}

/** Shows progress on standard error. Prints each reason why a source failed, and passes it to `onNote`. */
export function openBar(onNote?: (reason: string) => void): ProgressBar {
  const terminal = Terminal.of(process.stderr);
  const printLine = (line: string): void => (terminal ? terminal.print(line) : note(line));
  return new ProgressBar({
    terminal,
    onMilestone: (progress) => printLine(describeProgress(progress)),
    onNote(reason) {
      onNote?.(reason);
      printLine(`Could not download from ${reason}`);
    },
  });
}

/** Returns the error without those lines of its message that were already printed as `reasons`. */
function withoutPrinted(error: unknown, reasons: readonly string[]): unknown {
  if (!(error instanceof PullError)) return error;
  const lines = error.message.split('\n').filter((line) => !reasons.includes(line.replace(/^ {2}- /, '')));
  return new PullError(error.fault, lines.join('\n'), { cause: error });
}
