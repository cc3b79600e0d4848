import { Badge, type Tone } from '../../components/badge.tsx';

const TONES: Readonly<Record<string, Tone>> = {
  GET: 'accent',
  POST: 'good',
  PUT: 'warn',
  PATCH: 'warn',
  DELETE: 'bad',
};

/** The HTTP method of an operation. */
export function MethodBadge({ method }: { method: string }) {
  return (
    <Badge tone={TONES[method] ?? 'neutral'}>
      <span className="font-mono">{method}</span>
    </Badge>
  );
}
