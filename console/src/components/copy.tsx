import { Check, Copy } from 'lucide-react';
import { useEffect, useState } from 'react';
import { Button, IconButton } from './button.tsx';
import { notify } from '../notify.ts';

interface CopyProps {
  text: string;
  /** Name of the copied value, such as "key". */
  what: string;
  /** Shows a text label next to the icon. */
  labeled?: boolean;
  onCopied?: (() => void) | undefined;
}

/** The base URL of the API for clients, with a copy button. */
export function BaseUrl({ url }: { url: string }) {
  return (
    <p className="flex items-center gap-3 rounded-lg bg-sunken py-1 pr-1.5 pl-4">
      <code className="min-w-0 flex-1 font-mono text-xs wrap-anywhere">{url}</code>
      <CopyButton text={url} what="URL" />
    </p>
  );
}

/** Copies text to the clipboard and confirms it with a toast. Resolves to whether it was copied. */
async function copyText(text: string, what: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Browsers block the clipboard on pages loaded over plain HTTP from another machine.
    notify.error('Your browser blocked the clipboard. Select the text and copy it.');
    return false;
  }
  notify.success(`Copied ${what} to clipboard`);
  return true;
}

export function CopyButton({ text, what, labeled = false, onCopied }: CopyProps) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    if (!(await copyText(text, what))) return;
    setCopied(true);
    onCopied?.();
  };
  const icon = copied ? <Check className="size-4 text-good" /> : <Copy className="size-4" />;
  return labeled ? (
    <Button icon={icon} onClick={() => void copy()}>
      Copy {what}
    </Button>
  ) : (
    <IconButton label={`Copy ${what}`} onClick={() => void copy()}>
      {icon}
    </IconButton>
  );
}
