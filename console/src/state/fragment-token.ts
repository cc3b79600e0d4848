import { useEffect, useState } from 'react';

/**
 * Returns the secret in the URL fragment of a link; empty: none. Fragments do not reach server logs. The secret is
 * removed from the URL immediately, to keep it out of the browser history. A reload loses it.
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
    // Opening another link to the same page in this tab does not reload the page.
    addEventListener('hashchange', take);
    return () => removeEventListener('hashchange', take);
  }, []);
  return token;
}
