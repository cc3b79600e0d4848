import { Code } from './code.tsx';

/** Explains how to get a setup link. */
export function SetupLink() {
  return (
    <div className="space-y-3 text-sm text-ink-2">
      <p>To get a new setup link, run this command on the machine that runs the service:</p>
      <Code
        text="npx sluice setup-link"
        what="command"
        label="Command that prints a setup link"
        language="bash"
      />
      <p className="text-xs leading-5 text-ink-3">The link works once and expires after 60 minutes.</p>
    </div>
  );
}
