import { parentPort, workerData } from 'node:worker_threads';
import { ServiceError } from '../../../core/errors.ts';
import { parseExactJson } from '../../../json/exact-json.ts';
import { promptText } from './prompt-text.ts';
import { ChatTemplate } from './template.ts';
import type { RenderedRequest } from './template-probe.ts';
import type { RenderResult, TemplateData } from './template-thread.ts';

const { source, special, reserved } = workerData as TemplateData; // From `TemplateThread`.

const template = new ChatTemplate(source, special);

/** The thread of `TemplateThread`. Answers the requests in their order. */
parentPort?.on('message', (json: string) => {
  parentPort?.postMessage(resultOf(parseExactJson(json) as RenderedRequest));
});

/** An error must not end the thread. */
function resultOf(request: RenderedRequest): RenderResult {
  try {
    const { bos, reasoning, segments } = template.render(request);
    return { rendered: { bos, reasoning, ...promptText(segments, reserved) } };
  } catch (error) {
    if (!(error instanceof ServiceError)) return { failed: error };
    const { code, message, param, cause } = error;
    return { refusal: { code, message, param, cause: cause instanceof Error ? cause : undefined } };
  }
}
