import { Check, Copy } from 'lucide-react';
import { useEffect, useState } from 'react';
import { Button, IconButton } from './button.tsx';
import { say } from './toast.tsx';

interface CopyProps {
  text: string;
  /** What is copied: "key", "address". */
  what: string;
  /** With words beside the picture. */
  words?: boolean;
  /** Called once it is on the clipboard. */
  onCopied?: (() => void) | undefined;
}

/** Puts text on the clipboard, and says that it is there. */
export function CopyButton({ text, what, words = false, onCopied }: CopyProps) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      onCopied?.();
      say.good(`The ${what} is on the clipboard.`);
    } catch {
      // Browsers close the clipboard to pages that come over plain HTTP from another machine.
      say.bad('The browser keeps the clipboard closed here: select the text and copy it.');
    }
  };
  const icon = copied ? (
    <Check className="size-4 text-good" aria-hidden="true" />
  ) : (
    <Copy className="size-4" aria-hidden="true" />
  );
  return words ? (
    <Button icon={icon} onClick={() => void copy()}>
      Copy {what}
    </Button>
  ) : (
    <IconButton label={`Copy ${what}`} onClick={() => void copy()}>
      {icon}
    </IconButton>
  );
}
