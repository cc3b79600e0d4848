import { Code } from '../../components/code.tsx';

/** How whoever runs the service gets a set-up link. */
export function SetupLink() {
  return (
    <div className="space-y-3 text-sm text-ink-2">
      <p>On the machine that the service runs on:</p>
      <Code text="sluice setup-link" what="command" label="Command that prints a set-up link" />
      <p className="text-xs leading-5 text-ink-3">
        In a clone it is <code className="font-mono">npm run --silent sluice -- setup-link</code>. The link
        works once, within 60 minutes.
      </p>
    </div>
  );
}
