// Before the first paint, so that nobody in the dark is dazzled: `light`, `dark`, or as the system has it.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem('sluice.appearance');
  } catch {
    // Storage is closed to us: as the system has it.
  }
  const dark =
    chosen === 'dark' || (chosen !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
})();
