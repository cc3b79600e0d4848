import { act, orToast } from '../api/act.ts';
import { ApiError, call, type ItemOf } from '../api/client.ts';
import { limitsChange, typedLimits, type TypedLimits } from '../format/limits.ts';
import { notify } from '../notify.ts';

/** Returns a function that submits a form with the limits of a key or an account, as they are when it opens, and offers Undo. */
export function savingLimits(
  kind: 'key' | 'account',
  { id, name, limits }: Pick<ItemOf<'listAccounts'>, 'id' | 'name' | 'limits'>,
) {
  let seen = typedLimits(limits ?? {});
  const change = (values: Partial<TypedLimits>, before: TypedLimits, done?: string) => {
    const body = { limits: limitsChange(values), previous_limits: limitsChange(among(values, before)) };
    return act(
      kind === 'key' ? 'changeKey' : 'changeAccount',
      { params: { id }, body },
      done === undefined ? {} : { done },
    );
  };
  return async (_: TypedLimits, changed: Partial<TypedLimits>): Promise<void> => {
    try {
      await change(changed, seen);
    } catch (error) {
      // The error shows the values that others saved, so the next submission may replace them.
      if (error instanceof ApiError && error.code === 'conflict') {
        const now = await call(kind === 'key' ? 'getKey' : 'getAccount', { params: { id } });
        seen = typedLimits(now.limits ?? {});
      }
      throw error;
    }
    const earlier = among(changed, seen);
    notify.success(`Limits of ${name} updated`, {
      label: 'Undo',
      run: () => void orToast(change(earlier, { ...seen, ...changed }, `Limits of ${name} restored`)),
    });
  };
}

/** Returns the values of `all` for the limits of `some`. */
function among(some: Partial<TypedLimits>, all: TypedLimits): Partial<TypedLimits> {
  return Object.fromEntries(Object.entries(all).filter(([limit]) => limit in some));
}
