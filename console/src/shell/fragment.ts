import { useEffect, useState } from 'react';

/**
 * The secret of a link, which stands behind the `#` of its address so that it reaches no server log. It is taken out
 * of the address at once, so that it stays neither in the history nor on a shared screen, and lives in memory alone: a
 * reload forgets it. Empty: the link had none.
 */
export function useFragmentToken(): string {
  const [token, setToken] = useState(() => location.hash.slice(1));
  useEffect(() => {
    const take = () => {
      if (location.hash === '') return;
      setToken(location.hash.slice(1));
      history.replaceState(history.state, '', location.pathname + location.search);
    };
    take();
    // Another link to the same page, opened in this tab, loads nothing anew.
    addEventListener('hashchange', take);
    return () => removeEventListener('hashchange', take);
  }, []);
  return token;
}
