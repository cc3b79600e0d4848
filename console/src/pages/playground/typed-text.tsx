import { useEffect, useRef } from 'react';
import { classNames } from '../../components/class-names.ts';
import { INPUT } from '../../components/input.ts';

interface TypedTextProps {
  /** Accessible name. */
  label: string;
  value: string;
  placeholder?: string;
  /** Takes the focus on mount, with the caret at the end. */
  focused?: boolean;
  className?: string;
  onChange: (value: string) => void;
  /** Called on Ctrl+Enter and Cmd+Enter, and on Enter alone if `enterSends` is set. */
  onSend?: () => void;
  /**
   * Enter sends, and Shift+Enter starts a new line. On touch keyboards, which have no Shift+Enter, Enter starts a new
   * line.
   */
  enterSends?: boolean;
  onEscape?: () => void;
}

/** A text area that grows with its content, up to the maximum height of its class. */
export function TypedText({
  label,
  value,
  placeholder,
  focused = false,
  className,
  onChange,
  onSend,
  enterSends = false,
  onEscape,
}: TypedTextProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (!focused || area.current === null) return;
    area.current.focus();
    area.current.setSelectionRange(area.current.value.length, area.current.value.length);
  }, [focused]);
  return (
    <textarea
      ref={area}
      aria-label={label}
      placeholder={placeholder}
      value={value}
      rows={2}
      className={classNames(INPUT, 'field-sizing-content resize-none py-2 leading-5.5', className)}
      onChange={(event) => onChange(event.target.value)}
      onKeyDown={(event) => {
        if (belongsToInputMethod(event.nativeEvent)) return;
        if (
          event.key === 'Enter' &&
          onSend &&
          (event.ctrlKey || event.metaKey || (enterSends && sendsAlone(event)))
        ) {
          event.preventDefault();
          onSend();
        }
        if (event.key === 'Escape' && onEscape) {
          event.preventDefault();
          onEscape();
        }
      }}
    />
  );
}

/**
 * Returns whether a key belongs to an input method that is composing text. Safari ends the composition before the Enter
 * that confirms it, but reports the key code 229 for it, as UI Events requires.
 */
function belongsToInputMethod({
  isComposing,
  keyCode,
}: Pick<globalThis.KeyboardEvent, 'isComposing' | 'keyCode'>): boolean {
  return isComposing || keyCode === 229;
}

function sendsAlone({ shiftKey, altKey }: Pick<KeyboardEvent, 'shiftKey' | 'altKey'>): boolean {
  return !shiftKey && !altKey && !matchMedia('(pointer: coarse)').matches;
}
