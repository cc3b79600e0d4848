import { noSuchAccount } from '../../accounts/accounts.ts';
import { ServiceError } from '../../errors.ts';

/** The account whose id stands in the path. */
export const inPath = {
  find: ({ params }: { params: Readonly<Record<'id', string>> }) => params.id,
  missing: noSuchAccount,
};

/** The account that the query names, if it names one. */
export const inQuery = {
  find: ({ query }: { query: { account_id?: string | undefined } }) => query.account_id,
  missing: noneByThatName,
};

/** The account that the body names, if it names one. */
export const inBody = {
  find: ({ body }: { body: { account_id?: string | undefined } }) => body.account_id,
  missing: noneByThatName,
};

function noneByThatName(): ServiceError {
  return new ServiceError('not_found', 'This account does not exist.', { param: 'account_id' });
}
