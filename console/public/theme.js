// Sets the color scheme before the first paint: `light`, `dark`, or the system setting.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem('sluice.appearance');
  } catch {
    // Storage is unavailable: use the system setting.
  }
  const dark =
    chosen === 'dark' || (chosen !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
})();
