import { Badge } from '../../components/badge.tsx';
import { Code } from '../../components/code.tsx';
import { Notice } from '../../components/states.tsx';
import { duration } from '../../format/time.ts';
import type { TryResult } from './use-try.ts';

/** The response of a request: status, relevant headers, and the body as it arrives. */
export function TryResponse({ response, running }: { response: TryResult | null; running: boolean }) {
  return (
    <section aria-label="Response" className="mt-6 border-t border-line pt-5 empty:hidden">
      <p role="status" className="flex min-h-5 flex-wrap items-center gap-2 text-xs text-ink-3">
        {response?.status !== null && response !== null ? (
          <>
            <Badge tone={response.status < 300 ? 'good' : response.status < 500 ? 'warn' : 'bad'}>
              <span className="font-mono">{response.status}</span>
            </Badge>
            {response.headersMs !== null && `response started after ${duration(response.headersMs)}`}
            {running && ', still receiving'}
          </>
        ) : running ? (
          'Waiting for the response'
        ) : (
          response === null && 'The response will appear here.'
        )}
      </p>
      {response !== null && response.headers.length > 0 && (
        <dl className="mt-3 grid gap-x-4 gap-y-1 font-mono text-2xs leading-4 sm:grid-cols-[auto_minmax(0,1fr)]">
          {response.headers.map(([name, value]) => (
            <div key={name} className="flex flex-wrap gap-x-2 sm:contents">
              <dt className="text-ink-3">{name}</dt>
              <dd className="break-all text-ink-2">{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {response !== null && response.text !== '' && (
        <div className="mt-3">
          <Code text={response.text} what="response" label="Response body" language="json" />
        </div>
      )}
      {response?.fault !== null && response !== null && (
        <div className="mt-3">
          <Notice tone="bad">{response.fault}</Notice>
        </div>
      )}
    </section>
  );
}
