import type { ResponseOf } from '../../api/client.ts';
import { Badge } from '../../components/badge.tsx';
import { Card, Figure } from '../../components/card.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { GUIDES } from '../../components/guide-pages.ts';
import { TextLink } from '../../components/link.tsx';
import { Time } from '../../components/time.tsx';
import { duration } from '../../format/time.ts';
import type { Check } from '../../health/health-checks.ts';

const TONES = { healthy: 'good', unhealthy: 'bad', warning: 'warn', off: 'neutral' } as const;

interface ChecksProps {
  title: string;
  hint?: string;
  checks: readonly Check[];
  isCurrent: boolean;
}

export function Checks({ title, hint, checks, isCurrent }: ChecksProps) {
  return (
    <Card flush title={title} {...(hint !== undefined && { hint })}>
      <ul className="divide-y divide-line">
        {checks.map((check) => (
          <li
            key={check.name}
            className="grid gap-x-6 gap-y-1 px-4 py-3.5 grid-cols-[minmax(0,1fr)_auto] items-baseline sm:grid-cols-[11rem_minmax(0,1fr)_auto] sm:px-5"
          >
            <h3 className="text-sm font-medium">{check.name}</h3>
            <div className="order-last col-span-2 min-w-0 text-sm text-ink-2 sm:order-none sm:col-span-1">
              <p className="break-words">{check.what}</p>
              {check.advice !== null && (
                <p className="mt-1 break-words text-ink-3">
                  <GuideText text={check.advice} />
                </p>
              )}
            </div>
            <span>
              {isCurrent ? <Badge tone={TONES[check.state]}>{check.word}</Badge> : <Badge>Unknown</Badge>}
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** The version and the instances of the service. `now` in Unix milliseconds. */
export function About({ health, now }: { health: ResponseOf<'readHealth'>; now: number }) {
  return (
    <Card>
      <dl className="grid grid-cols-2 gap-x-4 gap-y-5 sm:grid-cols-4">
        <Figure label="Version" value={health.version} />
        <Figure
          label="Uptime"
          value={duration(Math.max(0, now - Date.parse(health.started_at)))}
          note={
            <>
              since <Time at={health.started_at} />
            </>
          }
        />
        <Figure
          label="Instances"
          value={health.instances ?? '—'}
          note={<span className="block truncate">this instance: {health.instance}</span>}
        />
        <Figure label="Node.js" value={health.node_version} />
      </dl>
    </Card>
  );
}

/** Like `CodeText`, and references such as `docs/limits.md, "Key limits"` are links to the guide. */
function GuideText({ text }: { text: string }) {
  // Captures the page and the section.
  const parts = text.split(/docs\/([\w-]+)\.md(?:, "([^"]+)")?/);
  return parts.map((part, index) => {
    // The parts never change order.
    if (index % 3 === 0) return <CodeText key={index} text={part} />;
    if (index % 3 === 2) return null;
    return <GuideLink key={index} slug={part} section={parts[index + 1]} />;
  });
}

function GuideLink({ slug, section }: { slug: string; section: string | undefined }) {
  const page = GUIDES.find((one) => one.slug === slug);
  if (section === undefined) return <TextLink to={`/docs/guide/${slug}`}>{page?.title ?? slug}</TextLink>;
  const anchor = section
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
  return (
    <TextLink to={`/docs/guide/${slug}#${anchor}`}>
      {page?.title ?? slug}: {section}
    </TextLink>
  );
}
