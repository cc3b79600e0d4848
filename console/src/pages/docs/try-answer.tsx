import { Badge } from '../../components/badge.tsx';
import { Code } from '../../components/code.tsx';
import { Notice } from '../../components/states.tsx';
import { duration } from '../../format/time.ts';
import type { Tried } from './use-try.ts';

/** The response of a request: status, relevant headers, and the body as it arrives. */
export function TryAnswer({ answer, running }: { answer: Tried | null; running: boolean }) {
  return (
    <section aria-label="Response" className="mt-6 border-t border-line pt-5 empty:hidden">
      <p role="status" className="flex min-h-5 flex-wrap items-center gap-2 text-xs text-ink-3">
        {answer?.status !== null && answer !== null ? (
          <>
            <Badge tone={answer.status < 300 ? 'good' : answer.status < 500 ? 'warn' : 'bad'}>
              <span className="font-mono">{answer.status}</span>
            </Badge>
            {answer.headersMs !== null && `first byte after ${duration(answer.headersMs)}`}
            {running && ', receiving'}
          </>
        ) : running ? (
          'Waiting for the response'
        ) : (
          answer === null && 'The response will appear here.'
        )}
      </p>
      {answer !== null && answer.headers.length > 0 && (
        <dl className="mt-3 grid gap-x-4 gap-y-1 font-mono text-2xs leading-4 sm:grid-cols-[auto_minmax(0,1fr)]">
          {answer.headers.map(([name, value]) => (
            <div key={name} className="flex flex-wrap gap-x-2 sm:contents">
              <dt className="text-ink-3">{name}</dt>
              <dd className="break-all text-ink-2">{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {answer !== null && answer.text !== '' && (
        <div className="mt-3">
          <Code text={answer.text} what="response" label="Response body" />
        </div>
      )}
      {answer?.fault !== null && answer !== null && (
        <div className="mt-3">
          <Notice tone="bad">{answer.fault}</Notice>
        </div>
      )}
    </section>
  );
}
