import type { ComponentProps } from 'react';
import { Link as WouterLink } from 'wouter';
import { useHrefWithAccount } from '../state/account.ts';

type LinkProps = Omit<ComponentProps<'a'>, 'href'> & {
  /** A console path, with an optional query. */
  to: string;
  /** Kept with the page in the history. */
  state?: object | undefined;
  /** Replaces the page in the history. */
  replace?: boolean;
};

/** A link within the console. Keeps the account of the current URL. */
export function Link({ to, ...rest }: LinkProps) {
  return <WouterLink href={useHrefWithAccount()(to)} {...rest} />;
}

export function TextLink({ className = '', ...rest }: LinkProps) {
  return (
    <Link className={`font-medium text-accent underline-offset-2 hover:underline ${className}`} {...rest} />
  );
}
