import type { ComponentProps } from 'react';
import { Link as WouterLink } from 'wouter';
import { useHrefWithAccount } from './account.ts';

type LinkProps = Omit<ComponentProps<'a'>, 'href'> & {
  /** A path of the console, with a query if it has one. */
  to: string;
};

/** A link within the console: it stays with the account that is looked at. */
export function Link({ to, ...rest }: LinkProps) {
  return <WouterLink href={useHrefWithAccount()(to)} {...rest} />;
}

/** A link in running text. */
export function TextLink({ className = '', ...rest }: LinkProps) {
  return (
    <Link className={`font-medium text-accent underline-offset-2 hover:underline ${className}`} {...rest} />
  );
}
